// What the builders of funnels and of goals have in common: filters that follow their operator, names that were never seen, faults as people type.
import { clearFaults, fieldOf, placeFaults } from "../faults.js";
import { on } from "../listening.js";
import { suggestBy } from "./combobox.js";
import { operatorChanged, readFilterValue } from "./filters.js";
import { chosenIn, part } from "./matches.js";
import { isKnown, suggest } from "./suggestions.js";

const NOT_YET = ["required", "too_short", "too_few_steps"];

// does: what a click on a button with data-does does; answers whether it changed the form. Changes are told as input events of the form.
export function startEditing(form, does) {
  suggestBy(suggest);
  // Before the form hears of it, which reads the hidden text.
  on("input", ".filter-inputs > *", (input) => readFilterValue(input.closest(".filter")), { capture: true });
  on("change", "[data-operator]", (select) => {
    operatorChanged(select.closest(".filter"));
    changed(form);
  });
  on("change", "[data-match] .match-line :is(input, select)", (input) => tellUnknown(input.closest("[data-match]")));
  on("focusout", '[data-suggests="name"]', (input) => tellUnknown(input.closest("[data-match]")));
  on("click", "[data-does]", (button) => {
    if (button.getAttribute("aria-disabled") === "true") return;
    if (form.contains(button) && does(button)) changed(form);
  });
  on("keydown", "[data-match] input", (_, event) => event.key === "Enter" && event.preventDefault());
  form.addEventListener("form:refused", () => (form.dataset.tried = "true"));
}

export function changed(form) {
  form.dispatchEvent(new Event("input", { bubbles: true }));
}

async function tellUnknown(match) {
  const asked = chosenIn(match);
  const known = await isKnown(asked);
  const now = chosenIn(match);
  if (now.type === asked.type && now.value === asked.value) part(match, "value").querySelector(".unknown").hidden = known;
}

// Faults that the server finds before anyone asked to save: what is simply not filled in yet is none until then.
export function showFaultsSoFar(form, faults) {
  clearFaults(form);
  const shown = form.dataset.tried ? faults : faults.filter((fault) => !NOT_YET.includes(fault.code) && !isEmpty(form, fault));
  placeFaults(form, shown);
}

function isEmpty(form, fault) {
  return fieldOf(form, fault.field)?.querySelector("input:not([type=hidden]), textarea")?.value === "";
}
