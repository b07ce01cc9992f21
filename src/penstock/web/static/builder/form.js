// Shared by the funnel builder and the goal form: filter inputs, unknown event names, errors while
// typing.
import { clearFaults, fieldOf, placeFaults } from "../faults.js";
import { on } from "../delegation.js";
import { suggestBy } from "./combobox.js";
import { operatorChanged, readFilterValue } from "./filters.js";
import { part, selectionOf } from "./matches.js";
import { isKnown, RETRIES_MS, suggest } from "./suggestions.js";

const NOT_FILLED_IN = ["required", "too_short", "too_few_steps"];
const rechecks = new WeakMap(); // match => timer
let latestFaults = [];

// handleClick: handles a click on a button with data-does and returns whether the form changed.
// Changes dispatch input events.
export function startEditing(form, handleClick) {
  suggestBy(suggest, RETRIES_MS);
  // Listen in the capture phase, before the form reads the hidden text.
  on("input", ".filter-inputs > *", (input) => readFilterValue(input.closest(".filter")), {
    capture: true,
  });
  on("change", "[data-operator]", (select) => {
    operatorChanged(select.closest(".filter"));
    changed(form);
  });
  on("change", "[data-match] .match-line :is(input, select)", (input) =>
    showUnknown(input.closest("[data-match]")),
  );
  on("focusout", '[data-suggests="name"]', (input) => showUnknown(input.closest("[data-match]")));
  on("click", "[data-does]", (button) => {
    if (button.getAttribute("aria-disabled") === "true") return;
    if (form.contains(button) && handleClick(button)) changed(form);
  });
  on(
    "keydown",
    "[data-match] input",
    (_, event) => event.key === "Enter" && event.preventDefault(),
  );
  form.addEventListener(
    "focusout",
    () => latestFaults.length && setTimeout(() => showFaultsSoFar(form, latestFaults)),
  );
  form.addEventListener("form:refused", () => {
    form.dataset.tried = "true";
    latestFaults = [];
  });
}

export function changed(form) {
  form.dispatchEvent(new Event("input", { bubbles: true }));
}

// Shows a notice until an event has the name.
async function showUnknown(match, retries_ms = RETRIES_MS) {
  clearTimeout(rechecks.get(match));
  const checked = selectionOf(match);
  const isCurrent = () => JSON.stringify(selectionOf(match)) === JSON.stringify(checked);
  const known = await isKnown(checked);
  if (!isCurrent()) return;
  part(match, "value").querySelector(".unknown").hidden = known;
  const [next_ms, ...later_ms] = retries_ms;
  if (known || !next_ms) return;
  rechecks.set(
    match,
    setTimeout(() => match.isConnected && isCurrent() && showUnknown(match, later_ms), next_ms),
  );
}

// Shows errors before the first attempt to save. Marks empty fields of the focused row only after
// the reader leaves it. Returns whether an error is visible.
export function showFaultsSoFar(form, faults) {
  latestFaults = faults;
  clearFaults(form);
  const visible = form.dataset.tried
    ? faults
    : faults.filter((fault) => !isStillEmpty(form, fault));
  placeFaults(form, visible);
  return visible.length > 0;
}

function isStillEmpty(form, fault) {
  const field = fieldOf(form, fault.field);
  const isEmpty =
    NOT_FILLED_IN.includes(fault.code) ||
    field?.querySelector("input:not([type=hidden]), textarea")?.value === "";
  return (
    isEmpty &&
    field?.closest("[data-row], .field, .breakdown, [data-list]").contains(document.activeElement)
  );
}
