// Shared by the funnel builder and the goal form: filter inputs, unknown event names, errors while
// typing.
import {
  clearFaults,
  clearFieldFaults,
  fieldOf,
  placeFaults,
  showFaultCount,
} from "../faults.js";
import { on } from "../delegation.js";
import { openSuggestions, suggestBy } from "./combobox.js";
import { operatorChanged, propertyPicked, readFilterValue } from "./filters.js";
import { part, selectionOf } from "./matches.js";
import { RETRIES_MS, suggest, typesOf } from "./suggestions.js";

const NOT_FILLED_IN = ["required", "too_short", "too_few_steps"];
const rechecks = new WeakMap(); // match => timer
const checks = new Set(); // requests for the types of names that were just entered
let latestFaults = [];

// handleClick: handles a click on a button with data-does and returns whether the form changed.
// Changes dispatch input events.
export function startEditing(form, handleClick) {
  suggestBy(suggest, RETRIES_MS);
  // Listen in the capture phase, before the form reads the hidden text.
  const readValue = (input) => {
    readFilterValue(input.closest(".filter"));
    delete input.closest(".filter").dataset.waits;
  };
  on("input", ".filter-inputs > *", readValue, { capture: true });
  on("focusout", ".filter[data-waits] .filter-inputs > *", (input) => {
    delete input.closest(".filter").dataset.waits;
    changed(form);
  });
  on("change", "[data-operator]", (select) => {
    const filter = select.closest(".filter");
    operatorChanged(filter);
    if (filter.matches(".bare")) delete filter.dataset.waits;
    changed(form);
  });
  on("suggestion:picked", "[data-suggests]", (input, { detail }) => handlePick(input, detail));
  on("change", "[data-match] .match-line :is(input, select)", (input) => {
    if (input.matches("select")) input.dataset.chosen = "";
    showUnknown(input.closest("[data-match]"));
  });
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
  form.addEventListener("focusout", ({ target }) => {
    const field = target.closest("[data-field]");
    if (field) field.dataset.touched = "";
    if (latestFaults.length) setTimeout(() => showFaultsSoFar(form, latestFaults));
  });
  // The answer may change the type of a name, so a form that is sent meanwhile waits for it.
  form.addEventListener("submit", async (event) => {
    if (!checks.size) return;
    event.preventDefault();
    event.stopPropagation();
    await Promise.allSettled(checks);
    form.requestSubmit();
  });
  form.addEventListener("form:refused", ({ detail }) => {
    form.dataset.tried = "true";
    if (!detail.problem.errors) form.dataset.refused = "true";
    latestFaults = [];
  });
  form.addEventListener("form:body", () => delete form.dataset.refused);
}

export function changed(form) {
  form.dispatchEvent(new Event("input", { bubbles: true }));
}

// A picked event also sets the type. A click continues with the next empty field: the value of a
// filter, or the next step. Keys leave the focus, so that it moves only with Tab.
function handlePick(input, { suggestion, isClicked }) {
  const match = input.closest("[data-match]");
  if (suggestion.type) part(match, "type").querySelector("select").value = suggestion.type;
  const filter = input.closest(".filter");
  if (filter) propertyPicked(filter, suggestion);
  if (!isClicked || !match) return;
  const next =
    input.dataset.suggests === "property"
      ? filter?.querySelector(".filter-inputs [data-suggests]")
      : input.dataset.suggests === "name"
        ? match.closest("[data-row]")?.nextElementSibling?.querySelector("[data-suggests=name]")
        : null;
  if (next?.value === "") openSuggestions(next);
}

// Shows a notice until an event has the name. A typed name that only another type has gets that
// type, unless the reader has chosen one. isSaved: the name was not typed, so its type stays.
export async function showUnknown(match, { retries_ms = RETRIES_MS, isSaved = false } = {}) {
  clearTimeout(rechecks.get(match));
  const checked = selectionOf(match);
  const isCurrent = () => JSON.stringify(selectionOf(match)) === JSON.stringify(checked);
  const check = typesOf(checked);
  checks.add(check);
  const types = await check.finally(() => checks.delete(check));
  if (!isCurrent()) return;
  const known = !types || types.includes(checked.type);
  const select = part(match, "type").querySelector("select");
  if (!known && types.length && !isSaved && !("chosen" in select.dataset)) {
    select.value = types[0];
    changed(match);
    return showUnknown(match);
  }
  part(match, "value").querySelector(".unknown").hidden = known;
  const [next_ms, ...later_ms] = retries_ms;
  if (known || !next_ms) return;
  const again = () =>
    match.isConnected && isCurrent() && showUnknown(match, { retries_ms: later_ms, isSaved });
  rechecks.set(match, setTimeout(again, next_ms));
}

// Shows errors before the first attempt to save. Marks an empty field only if the reader has left
// it and its row. Returns whether an error is visible.
export function showFaultsSoFar(form, faults) {
  latestFaults = faults;
  // A refusal that names no field is shown until the next attempt to save.
  if (form.dataset.refused) clearFieldFaults(form);
  else clearFaults(form);
  const visible = form.dataset.tried
    ? faults
    : faults.filter((fault) => !isStillEmpty(form, fault));
  placeFaults(form, visible);
  if (form.dataset.tried) showFaultCount(form);
  return visible.length > 0;
}

function isStillEmpty(form, fault) {
  const field = fieldOf(form, fault.field);
  const isEmpty =
    NOT_FILLED_IN.includes(fault.code) ||
    field?.querySelector("input:not([type=hidden]), textarea")?.value === "";
  if (!isEmpty || !field) return isEmpty;
  const container = field.closest("[data-row], .field, .breakdown, [data-list]");
  return !("touched" in field.dataset) || container.contains(document.activeElement);
}
