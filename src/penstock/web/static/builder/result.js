// The result of a preview as figures and bars.
import { formatNumber, formatTimesIn } from "../formats.js";

export function showResult(
  panel,
  definition,
  { aggregate, asked, coverage, countingUnit, repeat, impossibleSteps },
) {
  const noun = repeat ? "run" : countingUnit;
  const isSoFar = hasWindow(definition) && !aggregate.settled;
  panel.querySelector(".preview-result").hidden = false;
  const rate = panel.querySelector("[data-rate]");
  const completed = rateOf(definition, aggregate, aggregate.steps.at(-1));
  rate.textContent = isSoFar && aggregate.entered ? `So far ${completed}` : completed;
  rate.classList.toggle("so-far", isSoFar && aggregate.entered > 0);
  // Nobody drops off without a conversion window: unfinished units may convert at any time.
  const pending = hasWindow(definition) ? "in progress" : "not converted";
  const isSettled = hasWindow(definition) && aggregate.settled > 0;
  const early = aggregate.earlyCompletions;
  panel.querySelector("[data-sums]").textContent = [
    isSettled && `${settledOf(aggregate.steps.at(-1))} of ${settledOf(aggregate.steps[0])} settled`,
    `${countOf(aggregate.entered, noun)} entered`,
    !isSettled && `${formatNumber(aggregate.completed)} completed`,
    aggregate.excluded && `${formatNumber(aggregate.excluded)} excluded`,
    aggregate.pending && `${formatNumber(aggregate.pending)} ${pending}`,
    isSettled && early && `${formatNumber(early)} done early`,
    isSoFar && aggregate.entered && "none settled yet",
  ]
    .filter(Boolean)
    .join(", ");
  panel.querySelector(".legend .dropped").hidden = !hasWindow(definition);
  panel.querySelector(".legend .excluded").hidden = !aggregate.excluded;
  const rows = [
    ...aggregate.steps.map((step, index) =>
      stepItem(panel, definition, step, aggregate.steps.slice(0, index), aggregate),
    ),
    ...aggregate.diagnostics.map((row) => diagnosticItem(panel, definition, row, noun)),
  ];
  panel
    .querySelector(".preview-steps")
    .replaceChildren(...rows.sort((a, b) => a.row - b.row).map(({ item }) => item));
  const unfinished = `Unfinished ${noun}s may still convert at any time.`;
  const noWindow = `This funnel has no conversion window. ${unfinished}`;
  // The sums above count the units in progress.
  const notes = coverage.notes
    .map((note, index) => ({ note, code: coverage.noteCodes[index] }))
    .filter(({ code }) => code !== "open_windows")
    .map(({ note, code }) => formatTimesIn(code === "no_window" ? noWindow : note));
  const first = definition.steps.find((row) => !row.diagnostic && !row.exclude);
  const withFilters = first?.filters?.length ? " with its filters" : "";
  const nothing = aggregate.entered
    ? []
    : [`No ${noun}s completed the first step${withFilters} in this period.`];
  const internal = asked?.internalTraffic === "leftOut" ? ["Internal traffic is left out."] : [];
  panel
    .querySelector("[data-notes]")
    .replaceChildren(
      ...[
        ...nothing,
        ...impossibleSteps.map(({ message }) => message),
        ...internal,
        ...new Set(notes),
      ].map((note) => Object.assign(document.createElement("li"), { textContent: note })),
    );
}

const settledOf = ({ settled }) => formatNumber(settled);

// How many units the order and the exclusions take out. period: in words.
export function excludedInWords({ aggregate, countingUnit, repeat }, period) {
  const part = formatNumber(aggregate.excluded);
  const whole = countOf(aggregate.entered, repeat ? "run" : countingUnit);
  return `Excludes ${part} of ${whole} from all rates (${period.toLowerCase()})`;
}

function hasWindow(definition) {
  return Boolean(definition.conversionWindow || definition.conversionWindowSeconds);
}

// The share of the units that reached a step. It is computed from counts, because the rates of the
// API are rounded.
function rateOf(definition, aggregate, step) {
  const [part, whole] = [step, aggregate.steps[0]].map((each) =>
    partAt(definition, aggregate, each),
  );
  return whole ? formatNumber(part / whole, "percent") : "–";
}

// The settled units that reached a step or, while none has settled, all that are not excluded.
function partAt(definition, { steps, settled }, step) {
  const isSettled = hasWindow(definition) && settled;
  return isSettled ? step.settled : step.count - excludedFrom(steps, step);
}

// The units that reached a step and were excluded there or later.
function excludedFrom(steps, step) {
  return steps.slice(step.step - 1).reduce((sum, { excluded }) => sum + excluded, 0);
}

// The bar shows which units reached this step, may still reach it, dropped off or were excluded
// before it, as in reports. earlier: the steps before this one.
function stepItem(panel, definition, step, earlier, aggregate) {
  const item = panel.querySelector("#preview-step").content.firstElementChild.cloneNode(true);
  const done = `${step.step} of ${aggregate.steps.length} done`; // in any order
  item.querySelector("bdi").textContent =
    definition.order === "any" ? done : `${step.step}. ${labelOf(definition.steps[step.row])}`;
  const sum = (name) => earlier.reduce((total, { [name]: count }) => total + count, 0);
  const [pending, dropped, excluded] = ["pending", "droppedOff", "excluded"].map(sum);
  const entered = step.count + pending + dropped + excluded;
  item
    .querySelector(".preview-numbers")
    .append(
      bold(formatNumber(partAt(definition, aggregate, step))),
      ` ${rateOf(definition, aggregate, step)}`,
    );
  if (pending) item.title = `${formatNumber(pending)} may still reach this step`;
  const share = (count) => (entered ? count / entered : 0);
  fillBar(item.querySelector("svg"), {
    reached: share(step.count),
    pending: share(pending),
    dropped: share(dropped),
    excluded: share(excluded),
  });
  return { row: step.row, item };
}

function diagnosticItem(panel, definition, { row, units, events }, noun) {
  const item = panel.querySelector("#preview-diagnostic").content.firstElementChild.cloneNode(true);
  item.querySelector("bdi").textContent = labelOf(definition.steps[row]);
  item.querySelector(".preview-numbers").textContent =
    `${countOf(units, noun)}, ${countOf(events, "event")}`;
  return { row, item };
}

function countOf(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function labelOf({ name, or = [], mode, ...match }) {
  if (name) return name;
  return [match, ...or].map(nameOf).join(mode ? " and " : " or ");
}

const nameOf = ({ type, value }) => (type === "Event" && value === "*" ? "Any event" : value);

// parts: shares by kind, as in the macro ui.bar.
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
