// The order of a funnel: one choice, whose value is the JSON of `strict` for all steps after the
// first. Steps that differ from each other keep their own values under the choice "mixed".
import { part } from "./matches.js";

const MIXED = "mixed";
const ANY = "any"; // the order of the funnel; no step is strict

export function isAnyOrder(select) {
  return select.value === ANY;
}

// Selects the choice of the saved steps, unless the saved funnel counts in any order.
export function selectOrder(select, steps) {
  if (isAnyOrder(select)) return;
  const values = new Set(steps.slice(1).map((row) => row.dataset.strict));
  const [value = ""] = values;
  const isMixed = values.size > 1 || ![...select.options].some((each) => each.value === value);
  const mixed = select.querySelector(`[value="${MIXED}"]`);
  mixed.hidden = mixed.disabled = !isMixed;
  if (isMixed || value) select.value = isMixed ? MIXED : value;
}

// Sets `strict` of all rows, and marks rows that differ from others. steps: those of the rows that
// are steps.
export function applyOrder(select, rows, steps) {
  for (const row of rows) {
    const isMixed = select.value === MIXED;
    const chosen = isMixed ? row.dataset.strict : isAnyOrder(select) ? "" : select.value;
    const strict = steps.indexOf(row) > 0 ? chosen : "";
    part(row, "strict").querySelector("input").value = strict;
    row.classList.toggle("strict", isMixed && strict !== "");
  }
}
