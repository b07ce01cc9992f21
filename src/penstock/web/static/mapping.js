// Shows the inputs that the use of a column needs, and sends no others. Adds the mapping to the
// form that saves it.
import { on } from "./delegation.js";

on("change", "[data-use]", (select) => {
  for (const part of select.closest(".column").querySelectorAll("[data-uses]"))
    part.hidden = !part.dataset.uses.split(" ").includes(select.value);
});

document.addEventListener(
  "form:body",
  (event) => {
    const { mapping } = event.target.dataset;
    if (mapping) event.detail.body.mapping = JSON.parse(mapping);
    if (event.target.id !== "mapping-form") return;
    event.target.querySelectorAll(".column").forEach((column, index) => {
      for (const input of column.querySelectorAll("[data-uses][hidden] :is(input, select)"))
        delete event.detail.body.columns[index][input.name.split(".").at(-1)];
    });
  },
  true,
);
