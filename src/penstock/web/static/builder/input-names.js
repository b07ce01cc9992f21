// Names inputs by position, such as steps[2].or[0].value, for the request body and for errors of
// fields.
//
// data-list="steps" contains items in order. data-part="value" marks a field of its item, and
// data-part="" the item itself.

export function nameAll(form) {
  for (const list of form.querySelectorAll("[data-list]")) {
    if (!list.parentElement.closest("[data-list]")) nameList(list, list.dataset.list);
  }
  for (const root of form.querySelectorAll("[data-root]")) walk(root, root.dataset.root);
}

function nameList(list, path) {
  const skips = "leavesOutEmpty" in list.dataset;
  let index = 0;
  for (const item of list.children) {
    if (skips && item.querySelector("input").value === "") nameField(item, null);
    else nameItem(item, `${path}[${index++}]`);
  }
}

function nameItem(item, path) {
  if (item.dataset.part === "") return nameField(item, path);
  item.dataset.field = path;
  walk(item, path);
}

function walk(element, path) {
  for (const child of element.children) {
    if (child.dataset.list) nameList(child, `${path}.${child.dataset.list}`);
    else if (child.dataset.part) nameField(child, `${path}.${child.dataset.part}`);
    else if (child.matches("p.fault")) child.id = `fault-${path}`;
    else walk(child, path);
  }
}

// path: null to leave the field out of the request body.
function nameField(field, path) {
  const control =
    field.querySelector("[data-named]") ?? field.querySelector("input, select, textarea");
  if (path === null) {
    control.removeAttribute("name");
    delete field.dataset.field;
    return;
  }
  field.dataset.field = path;
  control.name = path;
  if (control.type !== "hidden") control.id = `field-${path}`;
  const label = field.querySelector(":scope > label:not(.check)");
  if (label) label.htmlFor = control.id;
  const [fault, hint] = [field.querySelector(".fault"), field.querySelector(".hint")];
  fault.id = `fault-${path}`;
  if (hint) hint.id = `hint-${path}`;
  for (const input of field.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    const descriptions = [
      hint && !hint.hidden && hint.id,
      input.hasAttribute("aria-invalid") && fault.id,
    ]
      .filter(Boolean)
      .join(" ");
    if (descriptions) input.setAttribute("aria-describedby", descriptions);
    else input.removeAttribute("aria-describedby");
  }
}
