// Shows the errors of a problem document at their fields, and those without a field at the button
// that sends the form.
import { formatNumber } from "./formats.js";

export function clearFaults(form) {
  clearFieldFaults(form);
  form.querySelector(".form-faults").hidden = true;
  showStatus(form, "");
}

export function clearFieldFaults(form) {
  for (const message of form.querySelectorAll(".fault")) message.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]"))
    input.removeAttribute("aria-invalid");
}

export function clearFaultAt(form, path) {
  const field = form.querySelector(`[data-field="${CSS.escape(path)}"]`);
  field.querySelector(".fault").hidden = true;
  field.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
}

export function showFaults(form, problem) {
  const faults = problem.errors ?? [];
  if (faults.length) placeFaults(form, faults);
  else showAtButton(form, [problem.detail]);
  showFaultCount(form);
  const first =
    form.querySelector("[aria-invalid]") ?? form.querySelector(".form-faults:not([hidden])");
  if (first?.closest("details:not([open])")) first.closest("details").open = true;
  first?.focus({ preventScroll: true });
  first?.scrollIntoView({ block: "center" });
}

// Says beside the button of a form that was not sent how many fields have errors.
export function showFaultCount(form) {
  const count = form.querySelectorAll(".fault:not([hidden])").length;
  if (count)
    showStatus(form, `Not sent: correct ${count === 1 ? "the marked field" : `${count} fields`}.`);
}

// Shows errors without moving the focus, for checks while the reader types.
export function placeFaults(form, faults) {
  const withoutField = faults.filter((fault) => !showAtField(form, fault));
  if (withoutField.length)
    showAtButton(
      form,
      withoutField.map((fault) =>
        fault.field ? `${fault.field}: ${fault.message}` : fault.message,
      ),
    );
}

// The message comes before the button, where the reader looks: a long form has its top elsewhere.
export function showAtButton(form, lines) {
  const summary = form.querySelector(".form-faults");
  form.querySelector("button[type=submit]")?.closest(".actions")?.before(summary);
  summary.replaceChildren(
    ...(lines.length === 1
      ? [lines[0] || "The server rejected this without giving a reason."]
      : [listOf(lines)]),
  );
  summary.tabIndex = -1;
  summary.hidden = false;
}

// text: what happened to the form, beside its button.
export function showStatus(form, text) {
  const status = form.querySelector(".sending");
  if (status) status.textContent = text;
}

// Returns the field with a path, or the nearest field around it, tried in this order:
// steps[2].filters[0].value, steps[2].filters[0], steps[2].filters, steps[2], steps.
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
  const message = field.querySelector(".fault");
  message.textContent = message.hidden ? fault.message : `${message.textContent} ${fault.message}`;
  message.hidden = false;
  markInvalid(field.querySelector("input:not([type=hidden]), select, textarea, button"), message);
  return true;
}

function markInvalid(input, message) {
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  const descriptions = new Set(
    (input.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean),
  );
  input.setAttribute("aria-describedby", [...descriptions.add(message.id)].join(" "));
}

function listOf(lines) {
  const list = document.createElement("ul");
  list.append(
    ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
  );
  return list;
}

// Returns the message about a file that is too large. bytes: size of the file; limit: maximum size
// in bytes.
export function tooLarge(bytes, limit) {
  const [size, maximum] = [bytes, limit].map((number) => formatNumber(number, "bytes"));
  return `The file is ${size}. The limit is ${maximum}: split the file.`;
}
