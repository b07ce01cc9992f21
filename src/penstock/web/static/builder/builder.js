// The builder of funnels. The form is the definition: collecting.js reads it by the names of its inputs.
import { collect } from "../collecting.js";
import { showCopies } from "./copies.js";
import { changed, showFaultsSoFar, startEditing } from "./editing.js";
import { fromTemplate } from "./matches.js";
import { nameAll } from "./naming.js";
import { startPreview } from "./preview.js";
import { dragRows, makeRow, rowDoes, showRows } from "./rows.js";

const ATTEMPT_WINDOW_S = "604800";

const { definition: saved, id, limits, baseUrl } = JSON.parse(document.querySelector("#funnel-data").textContent);
const form = document.querySelector("#builder");
const rows = form.querySelector('[data-list="steps"]');
const breakdowns = form.querySelector('[data-list="breakdownProperties"]');
const addBreakdown = form.querySelector('[data-does="add-breakdown"]');
const window_s = form.elements.conversionWindowSeconds;
const sequence = form.elements.sequenceProperty;

const read = () => collect(form).body;
const counted = ({ name: _, ...definition }) => JSON.stringify(definition);

function makeBreakdown(property) {
  const item = fromTemplate("#breakdown-template");
  item.querySelector("input").value = property;
  return item;
}

// What depends on what was chosen: fields of attempts, numbers of rows, names of inputs.
function settle() {
  const attempts = form.elements.countingUnit.value === "attempt";
  if (attempts && window_s.value === "") window_s.value = ATTEMPT_WINDOW_S;
  window_s.options[0].hidden = window_s.options[0].disabled = attempts;
  const attempt = form.elements.attemptProperty;
  attempt.closest(".field").hidden = attempt.disabled = !attempts;
  sequence.closest(".field").hidden = !attempts && sequence.value === "";
  form.querySelector("#unit-fields").hidden = !attempts && sequence.value === "";
  nameAll(form);
  showRows(rows, form.querySelector("#counters"), limits);
  const count = breakdowns.children.length;
  form.querySelector("#breakdown-count").textContent = `${count} of ${limits.breakdowns}`;
  addBreakdown.setAttribute("aria-disabled", String(count >= limits.breakdowns));
  for (const button of form.querySelectorAll("[data-does=add-step], [data-does=add-diagnostic], [data-does=duplicate]")) {
    button.setAttribute("aria-disabled", String(rows.children.length >= limits.rows));
  }
}

function does(button) {
  if (button.dataset.does === "add-breakdown") {
    breakdowns.append(makeBreakdown(""));
    breakdowns.lastElementChild.querySelector("input").focus();
  } else if (button.dataset.does === "remove-breakdown") {
    button.closest(".breakdown").remove();
    addBreakdown.focus();
  } else {
    return rowDoes(button, rows, limits, (at) => read().steps[at]);
  }
  return true;
}

form.elements.attemptProperty.required = false; // left out when empty: the server then says what needs it
rows.replaceChildren(...(saved?.steps ?? [{}, {}]).map(makeRow));
breakdowns.replaceChildren(...(saved?.breakdownProperties ?? []).map(makeBreakdown));
settle();
const before = counted(read());
const recalculates = document.querySelector("#recalculates");
const ask = startPreview(read, (faults) => showFaultsSoFar(form, faults));
const show = () => {
  settle();
  const definition = read();
  showCopies(definition, id, baseUrl);
  if (recalculates) recalculates.hidden = counted(definition) === before;
  ask();
};
form.addEventListener("input", show);
startEditing(form, does);
dragRows(rows, () => changed(form));
showCopies(read(), id, baseUrl);
