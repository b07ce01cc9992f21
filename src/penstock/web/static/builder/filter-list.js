// The form of a list of filters: of a segment, or of internal traffic.
import { openSuggestions } from "./combobox.js";
import { changed, startEditing } from "./form.js";
import { nameAll } from "./input-names.js";
import { makeFilter } from "./matches.js";

const form = document.querySelector("#filter-list");
const list = form.querySelector('[data-list="filters"]');
const add = form.querySelector('[data-does="add-filter"]');

list.append(...JSON.parse(document.querySelector("#filter-list-data").textContent).map(makeFilter));
nameAll(form);
form.addEventListener("input", () => nameAll(form));
form.addEventListener("form:body", ({ detail }) => (detail.body.filters ??= []));
startEditing(form, handleClick);

// Returns whether the click changed the form.
function handleClick(button) {
  if (button === add) {
    list.append(makeFilter());
    changed(form);
    openSuggestions(list.lastElementChild.querySelector("input"));
    return false;
  }
  const filter = button.closest(".filter");
  const neighbour = filter.nextElementSibling ?? filter.previousElementSibling;
  filter.remove();
  (neighbour?.querySelector('[data-does="remove-filter"]') ?? add).focus();
  return true;
}
