// Matches (type, value, filters) as elements: made from what is saved, and read again by their names.
import { fillFilterValue } from "./filters.js";

export function fromTemplate(id) {
  return document.querySelector(id).content.firstElementChild.cloneNode(true);
}

export function part(element, name) {
  return element.querySelector(`[data-part="${name}"]`);
}

// element: of the template, or a list's item around one.
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

// What a match asks for, as far as it is chosen; for suggestions.
export function chosenIn(match) {
  return { type: part(match, "type").querySelector("select").value, value: part(match, "value").querySelector("input").value };
}

// What a click on a button inside of a match does; whether it was one of these.
export function matchDoes(button) {
  const does = button.dataset.does;
  if (does === "add-filter") {
    const filter = makeFilter();
    button.closest("[data-match]").querySelector('[data-list="filters"]').append(filter);
    filter.querySelector("input").focus();
  } else if (does === "remove-filter") {
    const filter = button.closest(".filter");
    const near = filter.nextElementSibling ?? filter.previousElementSibling;
    const focused = near?.querySelector('[data-does="remove-filter"]') ?? filter.closest("[data-match]").querySelector('[data-does="add-filter"]');
    filter.remove();
    focused.focus();
  } else {
    return false;
  }
  return true;
}
