// The two steps of a log-in. After the right password, the form for the code replaces the first
// form.
import { on } from "./delegation.js";
import { showAtButton } from "./faults.js";

on("form:refused", "[data-first-step]", (form, event) => {
  if (event.detail.problem.code !== "second_factor_required") return;
  event.preventDefault();
  show(form, form.parentElement.querySelector("[data-second-step]"));
});

// Return to the password after five wrong codes or five minutes.
on("form:refused", "[data-second-step]", (form, event) => {
  form.elements.code.value = "";
  if (event.detail.problem.code !== "log_in_expired") return;
  event.preventDefault();
  const first = form.parentElement.querySelector("[data-first-step]");
  show(form, first);
  first.elements.password.value = "";
  showAtButton(first, [event.detail.problem.detail]);
});

on("form:done", "[data-second-step]", (form) => {
  form.reset();
  if (form.closest("dialog")) show(form, form.parentElement.querySelector("[data-first-step]"));
});

function show(from, to) {
  from.hidden = true;
  to.hidden = false;
  to.querySelector("input:not([type=hidden], [readonly])").focus();
}
