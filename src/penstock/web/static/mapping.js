// Shows the inputs that the use of a column needs, and sends no others. A file is imported, and its
// mapping saved, only with the mapping on the screen: one that was changed is checked again first.
import { on } from "./delegation.js";
import { collect } from "./form-body.js";

const FORM = "#mapping-form";

on("change", "[data-use]", (select) => {
  for (const part of select.closest(".column").querySelectorAll("[data-uses]"))
    part.hidden = !part.dataset.uses.split(" ").includes(select.value);
});

for (const type of ["input", "change"]) on(type, FORM, showNextStep);
addEventListener("pageshow", showNextStep); // the browser may have restored other values

// Offers another check instead of what needs a checked mapping, while the mapping differs.
function showNextStep() {
  const controls = [...(document.querySelector(FORM)?.elements ?? [])];
  const isChanged = controls.some((control) => isUsed(control) && differs(control));
  for (const part of document.querySelectorAll("[data-when-changed]")) part.hidden = !isChanged;
  for (const part of document.querySelectorAll("[data-when-checked]")) part.hidden = isChanged;
  return isChanged;
}

function isUsed(control) {
  return !control.closest("[data-uses][hidden]");
}

function differs(control) {
  return control.matches("select")
    ? !control.selectedOptions[0]?.defaultSelected
    : control.matches("input") && control.value !== control.defaultValue;
}

function withoutUnused(form, mapping) {
  form.querySelectorAll(".column").forEach((column, index) => {
    for (const control of column.querySelectorAll("input, select"))
      if (!isUsed(control)) delete mapping.columns[index][control.name.split(".").at(-1)];
  });
  return mapping;
}

document.addEventListener(
  "form:body",
  ({ target, detail }) => {
    const form = document.querySelector(FORM);
    if (target === form) withoutUnused(form, detail.body);
    else if (form && target.matches("#start-import, #save-mapping-form"))
      detail.body.mapping = withoutUnused(form, collect(form).body);
  },
  true,
);
document.addEventListener("form:refused", (event) => {
  const isOther = event.detail.problem.code === "mapping_not_checked";
  if (isOther && showNextStep()) event.preventDefault();
});
