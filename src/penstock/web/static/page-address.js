// Keeps links and forms up to date: a part that htmx loads can change the address of the page, such
// as the tab, and the links and forms of other parts must not undo that.
const OF_ONE_LIST = ["page", "cursor"]; // another selection begins at the first page

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.shouldSwap || !detail.requestConfig.elt.closest("[hx-push-url=true]")) return;
  keepChanges(new URL(detail.pathInfo.finalRequestPath, location.href), detail.target);
});

// htmx has read the address of a link when it was loaded.
document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.elt.matches("a[hx-get]")) detail.path = detail.elt.getAttribute("hx-get");
});

// next: the address that the page gets. part: the element that will be loaded anew.
export function keepChanges(next, part) {
  const before = new URL(location.href);
  if (next.pathname !== before.pathname) return;
  const names = new Set([...before.searchParams.keys(), ...next.searchParams.keys()]);
  for (const name of names) {
    const [old, value] = [before, next].map(({ searchParams }) => searchParams.get(name));
    if (old === value || OF_ONE_LIST.includes(name)) continue;
    for (const element of document.querySelectorAll("a[href], form[method=get]")) {
      if (part.contains(element)) continue;
      if (element.matches("form")) changeForm(element, name, old, value);
      else if (element.pathname === next.pathname) changeLink(element, name, old, value);
    }
  }
}

function changeLink(link, name, old, value) {
  const address = new URL(link.href);
  if (address.searchParams.get(name) !== old) return; // the link is there to change it
  if (value === null) address.searchParams.delete(name);
  else address.searchParams.set(name, value);
  for (const attribute of ["href", "hx-get"])
    if (link.hasAttribute(attribute))
      link.setAttribute(attribute, address.pathname + address.search + address.hash);
}

function changeForm(form, name, old, value) {
  const control = form.elements.namedItem(name);
  if (control && (control.type !== "hidden" || control.value !== old)) return;
  if (!control && old !== null) return;
  if (value === null) control?.remove();
  else if (control) control.value = value;
  else form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
}
