// The funnel builder. The form holds the definition; form-body.js reads it by its inputs' names.
import { collect } from "../form-body.js";
import { showCopies } from "./code.js";
import {
  chooseGap,
  faultsInForm,
  makeExclusion,
  mergeRows,
  showGaps,
  splitRows,
} from "./exclusions.js";
import { changed, showFaultsSoFar, showUnknown, startEditing } from "./form.js";
import { showIdeas } from "./ideas.js";
import { fromTemplate } from "./matches.js";
import { openSuggestions } from "./combobox.js";
import { nameAll } from "./input-names.js";
import { applyOrder, isAnyOrder, selectOrder } from "./order.js";
import { startPreview } from "./preview.js";
import {
  closeEntered,
  focusFirst,
  handleRowClick,
  makeRow,
  moveRows,
  openRow,
  showRows,
  stepsOf,
} from "./rows.js";

const NEAR_LIMIT = 5;
const DEFAULT_WINDOW_S = { attempt: "604800", visitor: "1209600" };

const {
  definition: saved,
  id,
  limits,
  baseUrl,
} = JSON.parse(document.querySelector("#funnel-data").textContent);
const form = document.querySelector("#builder");
const rows = form.querySelector('[data-list="steps"]');
const exclusions = form.querySelector('[data-list="exclusions"]');
const order = form.querySelector("#order");
const counters = form.querySelector("#counters");
const excludes = form.querySelector("#excludes");
const breakdowns = form.querySelector('[data-list="breakdownProperties"]');
const addBreakdown = form.querySelector('[data-does="add-breakdown"]');
const window_s = form.elements.conversionWindowSeconds;
const useKeys = form.querySelector('[data-does="use-keys"]');
let hasKeys = Boolean(saved?.attemptProperties); // the attempt ID is made of several keys
// Until the reader selects a window or types a name, which may be before this module was loaded.
let windowIsDefault = !saved && window_s.selectedOptions[0].defaultSelected;
let attemptKeys = null; // the module with proposals for the attempt ID, once it is needed
let nameIsDefault = form.elements.name.value === "";

// Turns the body of the form into a definition. Returns it with the paths of its rows in the form.
function define({ exclusions: lines, ...definition }) {
  const { rows: steps, paths } = mergeRows(definition.steps, lines);
  return { definition: { ...definition, steps }, paths };
}

const readForm = () => collect(form).body;
const read = () => define(readForm()).definition;
const inForm = (faults) => faultsInForm(faults, define(readForm()).paths);
// Names do not affect what is counted.
const withoutName = ({ name: _, ...rest }) => rest;
const withoutNames = (definition) =>
  JSON.stringify({ ...withoutName(definition), steps: definition.steps?.map(withoutName) });

function makeBreakdown(property) {
  const item = fromTemplate("#breakdown-template");
  item.querySelector("input").value = property;
  return item;
}

// Updates everything that depends on other fields: attempt fields, row numbers, names of inputs.
function update() {
  const attempts = form.elements.countingUnit.value === "attempt";
  if (windowIsDefault) window_s.value = DEFAULT_WINDOW_S[form.elements.countingUnit.value];
  if (attempts && window_s.value === "") window_s.value = DEFAULT_WINDOW_S.attempt;
  window_s.options[0].hidden = window_s.options[0].disabled = attempts;
  showOtherWindow(window_s.value === "other");
  const { attemptProperty, attemptProperties, equalTimes, repeat } = form.elements;
  const { sequenceProperty } = form.elements;
  const inAnyOrder = isAnyOrder(order);
  form.querySelector("#any-order").disabled = !inAnyOrder;
  repeat.closest(".field").hidden = repeat.disabled =
    attempts || inAnyOrder || window_s.value === "";
  equalTimes.closest(".field").hidden = equalTimes.disabled = attempts || inAnyOrder;
  sequenceProperty.closest(".field").hidden = sequenceProperty.disabled = inAnyOrder;
  attemptProperty.closest(".field").hidden = attemptProperty.disabled = !attempts || hasKeys;
  form.querySelector("#attempt-keys").hidden = attemptProperties.disabled = !attempts || !hasKeys;
  useKeys.hidden = !attempts;
  useKeys.textContent = hasKeys ? "Use one attempt property" : "Use several attempt keys";
  const steps = stepsOf(rows);
  showGaps(exclusions, steps);
  applyOrder(order, rows.children, steps);
  nameAll(form);
  showRows(rows);
  const definition = read();
  const rowCount = definition.steps.length;
  showCounters(steps.length, rowCount);
  attemptKeys?.hideOldProposals(definition);
  excludes.hidden = !definition.steps.some(({ exclude, strict }) => exclude || strict);
  if (nameIsDefault) form.elements.name.value = defaultName();
  const count = breakdowns.children.length;
  form.querySelector("#breakdown-count").textContent =
    count >= limits.breakdowns ? `${count} of ${limits.breakdowns}` : "";
  const { breakdownAt } = form.elements;
  breakdownAt.closest(".field").hidden = breakdownAt.disabled = count === 0;
  addBreakdown.setAttribute("aria-disabled", String(count >= limits.breakdowns));
  for (const button of form.querySelectorAll(
    ["add-step", "add-diagnostic", "add-exclusion", "duplicate"]
      .map((does) => `[data-does=${does}]`)
      .join(),
  )) {
    button.setAttribute("aria-disabled", String(rowCount >= limits.rows));
  }
}

// Counts rows once few more are allowed.
function showCounters(stepCount, rowCount) {
  const counts = [
    [stepCount, limits.steps, "steps"],
    [rowCount, limits.rows, "rows"],
  ];
  counters.hidden = counts.every(([count, limit]) => count < limit - NEAR_LIMIT);
  counters.textContent = counts
    .map(([count, limit, noun]) => `${count} of ${limit} ${noun}`)
    .join(", ");
  counters.classList.toggle(
    "over",
    counts.some(([count, limit]) => count > limit),
  );
}

// The first and the last step, once there are two.
function defaultName() {
  const names = [...rows.children]
    .filter((row) => !row.matches(".aside"))
    .map((row) => row.querySelector("[data-suggests=name]").value)
    .filter(Boolean);
  const name = names.length < 2 ? "" : `${names[0]} to ${names.at(-1)}`;
  return name.slice(0, form.elements.name.maxLength);
}

// A definition has either conversionWindowSeconds or conversionWindow; inputs without a name and
// disabled inputs are not sent.
function showOtherWindow(isOther) {
  const other = form.querySelector("#other-window");
  window_s.name = isOther ? "" : "conversionWindowSeconds";
  other.hidden = !isOther;
  for (const input of other.querySelectorAll("input, select")) input.disabled = !isOther;
}

// A closed row hides the errors of its filters and options.
function openFaultyRows() {
  for (const row of rows.children)
    if (row.querySelector(".fault:not([hidden])")) openRow(row);
}

// Most visits of the page need no proposals, so their module is loaded on demand.
async function suggestKeys() {
  attemptKeys ??= await import("./attempt-keys.js");
  attemptKeys.findKeys(read());
}

// A property on its own has a field; other keys are listed.
function useKeysOf(keys) {
  const { attemptProperty, attemptProperties } = form.elements;
  hasKeys = keys.length > 1 || keys[0].startsWith("$");
  const field = hasKeys ? attemptProperties : attemptProperty;
  field.value = keys.join("\n");
  update();
  field.focus();
}

function handleClick(button) {
  if (button === useKeys) {
    hasKeys = !hasKeys;
    update();
    form.elements[hasKeys ? "attemptProperties" : "attemptProperty"].focus();
  } else if (button.dataset.does === "find-keys") {
    suggestKeys();
    return false;
  } else if (button.dataset.does === "use-proposal") {
    useKeysOf(attemptKeys.keysOf(button));
  } else if (button.dataset.does === "add-breakdown") {
    breakdowns.append(makeBreakdown(""));
    openSuggestions(breakdowns.lastElementChild.querySelector("input"));
  } else if (button.dataset.does === "add-idea") {
    breakdowns.append(makeBreakdown(button.value));
    addBreakdown.focus();
  } else if (button.dataset.does === "remove-breakdown") {
    button.closest(".breakdown").remove();
    addBreakdown.focus();
  } else if (button.dataset.does === "add-exclusion") {
    exclusions.append(makeExclusion({}));
    focusFirst(exclusions.lastElementChild);
  } else if (button.dataset.does === "remove-exclusion") {
    button.closest(".exclusion").remove();
    form.querySelector('[data-does="add-exclusion"]').focus();
  } else {
    return handleRowClick(button, rows, limits, (index) => readForm().steps[index]);
  }
  return true;
}

form.elements.attemptProperty.required = false; // omitted when empty; the server checks it
const shown = splitRows(saved?.steps ?? [{}, {}]);
rows.replaceChildren(...shown.rows.map(makeRow));
exclusions.replaceChildren(...shown.lines.map((line) => makeExclusion(line, stepsOf(rows))));
selectOrder(order, stepsOf(rows));
breakdowns.replaceChildren(...(saved?.breakdownProperties ?? []).map(makeBreakdown));
update();
const recalculates = document.querySelector("#recalculates");
// The form may begin with the changes of a report, which the saved funnel does not have.
const before = recalculates?.hidden ? withoutNames(read()) : null;
const waits = () => Boolean(form.querySelector(".filter[data-waits]"));
const preview = startPreview(read, waits, (faults) => {
  const isShown = showFaultsSoFar(form, inForm(faults));
  openFaultyRows();
  return isShown;
});
const show = () => {
  update();
  const definition = read();
  showCopies(definition, id, baseUrl);
  showIdeas(form.querySelector("#breakdown-ideas"), rows.firstElementChild, definition);
  if (recalculates) recalculates.hidden = withoutNames(definition) === before;
  preview();
};
window_s.addEventListener("input", () => (windowIsDefault = false)); // runs before the form's
form.elements.name.addEventListener("input", () => (nameIsDefault = false));
exclusions.addEventListener("input", ({ target }) => {
  if (target.closest('[data-part="between"]'))
    chooseGap(target.closest(".exclusion"), stepsOf(rows));
});
form.addEventListener("form:body", ({ detail }) => {
  detail.body = define(detail.body).definition;
});
form.addEventListener("form:refused", ({ detail: { problem } }) => {
  if (problem.errors) problem.errors = inForm(problem.errors);
  setTimeout(openFaultyRows);
});
form.addEventListener("input", show);
// Not at the loss of the focus: what the reader is about to click must not move.
for (const type of ["click", "keyup"])
  form.addEventListener(type, ({ target }) => setTimeout(closeEntered, 0, rows, target));
startEditing(form, handleClick);
moveRows(rows, () => changed(form));
showCopies(read(), id, baseUrl);
showIdeas(form.querySelector("#breakdown-ideas"), rows.firstElementChild, read());
if (saved)
  for (const match of form.querySelectorAll("[data-match]")) showUnknown(match, { isSaved: true });
