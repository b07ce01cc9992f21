// The answer to a preview as figures and bars.
import { formatNumber } from "../formats.js";

export function showResult(panel, definition, { aggregate, coverage, countingUnit }) {
  const unit = countingUnit === "attempt" ? "attempts" : "visitors";
  const dash = (rate) => (rate === null ? "–" : formatNumber(rate, "percent"));
  panel.querySelector(".preview-result").hidden = false;
  panel.querySelector("[data-rate]").textContent = dash(aggregate.conversionRate);
  const sums = [`${formatNumber(aggregate.entered)} ${unit} entered`, `${formatNumber(aggregate.completed)} completed`];
  panel.querySelector("[data-sums]").textContent = [...sums, aggregate.pending ? `${formatNumber(aggregate.pending)} pending` : ""].filter(Boolean).join(", ");
  const rows = [
    ...aggregate.steps.map((step, at) => stepItem(panel, definition, step, aggregate.steps[at - 1], aggregate.entered, dash)),
    ...aggregate.diagnostics.map((row) => diagnosticItem(panel, definition, row, unit)),
  ];
  panel.querySelector(".preview-steps").replaceChildren(...rows.sort((a, b) => a.row - b.row).map(({ item }) => item));
  panel.querySelector("[data-notes]").replaceChildren(...coverage.notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
}

// A bar is as long as the step before, of which this one's units are left; what is gone is pending or dropped off.
function stepItem(panel, definition, step, before, entered, dash) {
  const item = panel.querySelector("#preview-step").content.firstElementChild.cloneNode(true);
  item.querySelector("bdi").textContent = `${step.step}. ${labelOf(definition.steps[step.row])}`;
  item.querySelector(".preview-numbers").append(bold(formatNumber(step.count)), ` ${dash(step.conversionFromStart)}`);
  const share = (count) => (entered ? (count ?? 0) / entered : 0);
  fillBar(item.querySelector("svg"), { reached: share(step.count), pending: share(before?.pending), dropped: share(before?.droppedOff) });
  return { row: step.row, item };
}

function diagnosticItem(panel, definition, { row, units, events }, unit) {
  const item = panel.querySelector("#preview-diagnostic").content.firstElementChild.cloneNode(true);
  item.querySelector("bdi").textContent = labelOf(definition.steps[row]);
  item.querySelector(".preview-numbers").textContent = `${formatNumber(units)} ${unit}, ${formatNumber(events)} events`;
  return { row, item };
}

function labelOf({ value, or = [], mode }) {
  return [value, ...or.map((match) => match.value)].join(mode ? " and " : " or ");
}

// parts: shares of the whole by the kinds of the macro ui.bar.
function fillBar(svg, parts) {
  let x = 0;
  for (const [kind, share] of Object.entries(parts)) {
    const rect = svg.querySelector(`.${kind}`);
    rect.setAttribute("x", `${x * 100}%`);
    rect.setAttribute("width", `${share * 100}%`);
    x += share;
  }
}

function bold(text) {
  return Object.assign(document.createElement("strong"), { textContent: text });
}
