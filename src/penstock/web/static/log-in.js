// The two steps of a log-in: once the password is right, the form for the code takes the place of
// the first form.
import { on } from "./delegation.js";
import { showAbove } from "./faults.js";

on("form:refused", "[data-first-step]", (form, event) => {
  if (event.detail.problem.code !== "second_factor_required") return;
  event.preventDefault();
  show(form, form.parentElement.querySelector("[data-second-step]"));
});

// Five wrong codes, or five minutes: back to the password.
on("form:refused", "[data-second-step]", (form, event) => {
  form.elements.code.value = "";
  if (event.detail.problem.code !== "log_in_expired") return;
  event.preventDefault();
  const first = form.parentElement.querySelector("[data-first-step]");
  show(form, first);
  first.elements.password.value = "";
  showAbove(first, [event.detail.problem.detail]);
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
