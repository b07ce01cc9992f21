// The faults of a problem document, each at its field; those that have none, above the form.

export function clearFaults(form) {
  for (const place of form.querySelectorAll(".fault")) place.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  form.querySelector(".form-faults").hidden = true;
}

export function clearFaultAt(form, path) {
  const field = form.querySelector(`[data-field="${CSS.escape(path)}"]`);
  field.querySelector(".fault").hidden = true;
  field.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
}

export function showFaults(form, problem) {
  const faults = problem.errors ?? [];
  if (faults.length) placeFaults(form, faults);
  else showAbove(form, [problem.detail]);
  const first = form.querySelector("[aria-invalid]") ?? form.querySelector(".form-faults:not([hidden])");
  if (first?.closest("details:not([open])")) first.closest("details").open = true;
  first?.focus();
}

// The same without a change of the focus: for faults that were not asked for.
export function placeFaults(form, faults) {
  const elsewhere = faults.filter((fault) => !showAtField(form, fault));
  if (elsewhere.length) showAbove(form, elsewhere.map((fault) => (fault.field ? `${fault.field}: ${fault.message}` : fault.message)));
}

export function showAbove(form, lines) {
  const place = form.querySelector(".form-faults");
  place.replaceChildren(...(lines.length === 1 ? [lines[0] || "The server refused this without a reason."] : [listOf(lines)]));
  place.tabIndex = -1;
  place.hidden = false;
}

// The nearest field around a path: steps[2].filters[0].value, steps[2].filters[0], steps[2].filters, steps[2], steps.
export function fieldOf(form, path) {
  for (; path; path = path.replace(/(\.[^.[]+|\[\d+\]|^[^.[]+)$/, "")) {
    const field = form.querySelector(`[data-field="${CSS.escape(path)}"]`);
    if (field) return field;
  }
  return null;
}

export function showAtField(form, fault) {
  const field = fieldOf(form, fault.field);
  if (!field) return false;
  const place = field.querySelector(".fault");
  place.textContent = place.hidden ? fault.message : `${place.textContent} ${fault.message}`;
  place.hidden = false;
  mark(field.querySelector("input:not([type=hidden]), select, textarea, button"), place);
  return true;
}

function mark(input, place) {
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  const described = new Set((input.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean));
  input.setAttribute("aria-describedby", [...described.add(place.id)].join(" "));
}

function listOf(lines) {
  const list = document.createElement("ul");
  list.append(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
  return list;
}
