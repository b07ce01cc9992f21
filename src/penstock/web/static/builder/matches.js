// Matches (type, value, filters) as elements, filled from the saved definition and read by the
// names of their inputs.
import { openSuggestions } from "./combobox.js";
import { fillFilterValue } from "./filters.js";

export function fromTemplate(id) {
  return document.querySelector(id).content.firstElementChild.cloneNode(true);
}

export function part(element, name) {
  return element.querySelector(`[data-part="${name}"]`);
}

export function makeMatch({ type = "Event", value = "", filters = [] } = {}) {
  const element = fromTemplate("#match-template");
  part(element, "type").querySelector("select").value = type;
  part(element, "value").querySelector("input").value = value;
  element.querySelector('[data-list="filters"]').append(...filters.map(makeFilter));
  return element;
}

export function makeFilter({ property = "", operator = "equals", value = "" } = {}) {
  const element = fromTemplate("#filter-template");
  part(element, "property").querySelector("input").value = property;
  element.querySelector("[data-operator]").value = operator;
  fillFilterValue(element, value);
  return element;
}

// Returns the selected type and value of a match.
export function selectionOf(match) {
  return {
    type: part(match, "type").querySelector("select").value,
    value: part(match, "value").querySelector("input").value,
  };
}

// Handles a click on a button in a match. Returns whether it handled the click.
export function handleMatchClick(button) {
  const does = button.dataset.does;
  if (does === "add-filter") {
    const filter = makeFilter();
    filter.dataset.waits = ""; // for its value, before the preview uses it
    button.closest("[data-match]").querySelector('[data-list="filters"]').append(filter);
    openSuggestions(filter.querySelector("input"));
  } else if (does === "remove-filter") {
    const filter = button.closest(".filter");
    const neighbour = filter.nextElementSibling ?? filter.previousElementSibling;
    const next =
      neighbour?.querySelector('[data-does="remove-filter"]') ??
      filter.closest("[data-match]").querySelector('[data-does="add-filter"]');
    filter.remove();
    next.focus();
  } else {
    return false;
  }
  return true;
}
