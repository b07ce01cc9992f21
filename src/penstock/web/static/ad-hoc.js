// Menus of a report that change the saved definition for one query: their inputs become one
// parameter of the address.
import { suggestBy } from "./builder/combobox.js";
import { operatorChanged, propertyPicked, readFilterValue } from "./builder/filters.js";
import { makeFilter, part } from "./builder/matches.js";
import { RETRIES_MS, suggest } from "./builder/suggestions.js";
import { on } from "./delegation.js";

suggestBy(suggest, RETRIES_MS);
on("suggestion:entered", ".ad-hoc [data-suggests]", (input) => input.form.requestSubmit());
on("suggestion:picked", ".filter [data-suggests]", (input, { detail }) =>
  propertyPicked(input.closest(".filter"), detail.suggestion),
);
on("input", ".filter-inputs > *", (input) => readFilterValue(input.closest(".filter")), {
  capture: true,
});
on("change", "[data-operator]", (select) => operatorChanged(select.closest(".filter")));

for (const form of document.querySelectorAll("[data-asks]")) {
  const { asks } = form.dataset;
  const result = form.elements[asks];
  const list = form.querySelector(".filters");
  list?.append(labelled(makeFilter()));
  form.addEventListener("submit", () => {
    result.value = asks === "filters" ? filtersOf(result.value, list) : keysOf(form);
  });
}

for (const menu of document.querySelectorAll(".ad-hoc")) {
  menu.addEventListener("toggle", () => menu.open && menu.querySelector(".input").focus());
}

// Ties the labels of a filter to its inputs. The inputs have no names, so they are not sent.
function labelled(filter) {
  for (const field of filter.querySelectorAll("[data-part]")) {
    const label = field.querySelector("label");
    if (!label) continue;
    label.htmlFor = `filter-${field.dataset.part}`;
    field.querySelector("input, select").id = label.htmlFor;
  }
  return filter;
}

// The filters of the address and the one of the form, as JSON.
function filtersOf(current, list) {
  const filter = list.querySelector(".filter");
  const { value, disabled } = filter.querySelector("[data-named]");
  const added = {
    property: part(filter, "property").querySelector("input").value,
    operator: filter.querySelector("[data-operator]").value,
    ...(disabled ? {} : { value }),
  };
  return JSON.stringify([...(current ? JSON.parse(current) : []), added]);
}

// The names of the form's properties, each once, separated by commas. A name with a comma or quote
// is quoted.
function keysOf(form) {
  const names = [...form.querySelectorAll("[data-key]")].map(({ value }) => value);
  return [...new Set(names)]
    .filter((value) => value !== "")
    .map((key) => (/[",\n]/.test(key) ? `"${key.replaceAll('"', '""')}"` : key))
    .join(",");
}
