// Titles and buttons of a funnel's rows. Each change dispatches an input event at the list.
import { on } from "../delegation.js";
import { openSuggestions } from "./combobox.js";
import { filterInWords } from "./filters.js";
import { fromTemplate, handleMatchClick, makeMatch, part, selectionOf } from "./matches.js";

export function makeRow({ name = "", or = [], mode = null, diagnostic, strict, ...match } = {}) {
  const row = fromTemplate("#row-template");
  const own = makeMatch(match);
  own.querySelector('[data-does="remove-or"]').remove();
  row.querySelector("[data-own]").replaceWith(own);
  row.querySelector('[data-list="or"]').append(...or.map(makeOr));
  part(row, "mode").querySelector("select").value = mode ?? "";
  nameOf(row).value = name;
  diagnosticOf(row).checked = Boolean(diagnostic);
  row.dataset.strict = strict ? JSON.stringify(strict) : "";
  return row;
}

const nameOf = (row) => part(row, "name").querySelector("input");
const diagnosticOf = (row) => part(row, "diagnostic").querySelector("input");

// The rows of the list that are steps.
export const stepsOf = (list) => [...list.children].filter((row) => !diagnosticOf(row).checked);

function makeOr(match) {
  const item = document.createElement("li");
  item.className = "or";
  item.append(makeMatch(match));
  return item;
}

// Updates numbers, titles and modes after a change.
export function showRows(list) {
  let step = 0;
  for (const row of list.children) {
    const isStep = !diagnosticOf(row).checked;
    const position = isStep ? `Step ${++step}` : diagnosticAfter(step);
    const name = nameOf(row).value.trim();
    const title = name ? `${position}: ${name}` : position;
    row.classList.toggle("named", name !== "");
    row.classList.toggle("aside", !isStep);
    row.querySelector(".row-number").textContent = isStep ? step : "i";
    row.querySelector(".row-title").textContent = title;
    row.setAttribute("aria-label", title);
    showMode(row);
    showLabels(row, title);
    showText(row, isStep ? "" : "Diagnostic");
  }
}

const diagnosticAfter = (step) =>
  step ? `Diagnostic after step ${step}` : "Diagnostic before step 1";

function showMode(row) {
  const [field, ors] = [part(row, "mode"), row.querySelector('[data-list="or"]').children.length];
  const select = field.querySelector("select");
  field.hidden = !ors;
  select.disabled = field.hidden;
  row.classList.toggle("all-of", !select.disabled && select.value === "all_of");
  row.querySelector('[data-does="add-or"] span').textContent = row.classList.contains("all-of")
    ? "And"
    : "Or";
}

const LABELS = {
  open: "More options",
  duplicate: "Duplicate",
  remove: "Remove",
  "add-or": "Add an option",
};

function showLabels(row, title) {
  for (const button of row.querySelectorAll("[data-does]")) {
    const label = LABELS[button.dataset.does];
    if (label) button.setAttribute("aria-label", `${label}: ${title}`);
  }
  row.querySelector("[data-drag]").setAttribute("aria-label", `Move: ${title}`);
}

// A closed row is one line of text: its name or its events, with their filters. A row without an
// event has nothing to say and shows its inputs. kind: the kind of a row that is not a step.
function showText(row, kind) {
  const name = nameOf(row).value.trim();
  const joins = row.classList.contains("all-of") ? "and" : "or";
  const matches = [...row.querySelectorAll("[data-match]")];
  const words = matches.flatMap((match, at) => [
    ...(at ? [soft(joins)] : []),
    ...eventInWords(match),
    ...[...match.querySelectorAll(".filter")].map((filter, index) =>
      soft(`${index ? "and" : "where"} ${filterInWords(filter)}`),
    ),
  ]);
  row.querySelector(".row-text").replaceChildren(
    ...[
      ...(kind ? [soft(kind)] : []),
      ...(name ? [bold(name)] : []),
      ...words,
      ...(row.matches(".strict") ? [soft("(strict)")] : []),
    ].flatMap((word, at) => (at ? [" ", word] : [word])),
  );
  if (!selectionOf(matches[0]).value) row.dataset.entry = "";
}

function eventInWords(match) {
  const { type, value } = selectionOf(match);
  if (type === "Event" && value === "*") return [isolated("Any event")];
  const label = part(match, "type").querySelector("select").selectedOptions[0]?.textContent;
  return [...(type === "Event" ? [] : [soft(label)]), isolated(value)];
}

const isolated = (textContent, className = "") =>
  Object.assign(document.createElement("bdi"), { textContent, className });
const soft = (text) => isolated(text, "soft");

function bold(text) {
  const strong = document.createElement("strong");
  strong.append(isolated(text));
  return strong;
}

// Closes the rows whose event the reader has entered, once the focus is elsewhere. clicked: where
// the reader has clicked or typed. A click beside the fields of a row focuses a part of the page
// around it.
export function closeEntered(list, clicked) {
  const { activeElement } = document;
  const current = activeElement.contains(clicked) ? clicked : activeElement;
  for (const row of list.querySelectorAll("[data-row][data-entry]"))
    if (
      !row.contains(current) &&
      selectionOf(row.querySelector("[data-match]")).value
    )
      delete row.dataset.entry;
}

export function openRow(row, isOpen = true) {
  delete row.dataset.entry;
  if (isOpen) row.dataset.open = "";
  else delete row.dataset.open;
  row.querySelector('[data-does="open"]').setAttribute("aria-expanded", String(isOpen));
}

// Handles a click on a button in or below the list. Returns whether it handled the click. limits:
// {rows}. read: returns a row's definition by index.
export function handleRowClick(button, list, limits, read) {
  const does = button.dataset.does;
  const row = button.closest("[data-row]");
  if (does === "add-filter" && row) openRow(row);
  if (does === "open") openRow(row, !("open" in row.dataset));
  else if (does === "edit") {
    openRow(row);
    row.querySelector('[data-suggests="name"]').focus();
  } else if (does === "duplicate")
    addRow(list, limits, makeRow(read([...list.children].indexOf(row))), row);
  else if (does === "add-step") addRow(list, limits, makeRow());
  else if (does === "add-diagnostic")
    addRow(list, limits, makeRow({ diagnostic: true }), lastButOne(list));
  else if (does === "remove") removeRow(list, row);
  else if (does === "add-or")
    focusFirst(row.querySelector('[data-list="or"]').appendChild(makeOr()));
  else if (does === "remove-or") removeOption(button.closest(".or"), row);
  else return handleMatchClick(button);
  return true;
}

function addRow(list, limits, row, after = list.lastElementChild) {
  if (list.children.length >= limits.rows) return;
  if (after) after.after(row);
  else list.append(row);
  if (row.querySelector('[data-suggests="name"]').value) openRow(row);
  else row.dataset.entry = "";
  focusFirst(row);
}

// A new diagnostic row goes before the last step.
const lastButOne = (list) => list.lastElementChild?.previousElementSibling ?? list.lastElementChild;

export function focusFirst(row) {
  openSuggestions(row.querySelector('[data-suggests="name"]'));
}

function removeRow(list, row) {
  const neighbour = row.nextElementSibling ?? row.previousElementSibling;
  row.remove();
  if (neighbour) neighbour.querySelector('[data-does="open"]').focus();
  else document.querySelector('[data-does="add-step"]').focus();
}

function removeOption(item, row) {
  item.remove();
  row.querySelector('[data-does="add-or"]').focus();
}

// Moves rows by their handles: with the arrow keys, or by dragging. The dragged row stays in place
// in the document, and its neighbours move around it.
export function moveRows(list, onChange) {
  on("keydown", "[data-drag]", (handle, event) => {
    const row = handle.closest("[data-row]");
    const [up, down] = ["ArrowUp", "ArrowDown"].map((key) => event.key === key);
    if (up) row.previousElementSibling?.before(row);
    else if (down) row.nextElementSibling?.after(row);
    else return;
    event.preventDefault();
    handle.focus();
    onChange();
  });
  on("pointerdown", "[data-drag]", (handle, event) => {
    const row = handle.closest("[data-row]");
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    row.classList.add("dragged");
    const drag = ({ clientY }) => {
      while (row.previousElementSibling && clientY < middle(row.previousElementSibling))
        row.after(row.previousElementSibling);
      while (row.nextElementSibling && clientY > middle(row.nextElementSibling))
        row.before(row.nextElementSibling);
    };
    const drop = () => {
      row.classList.remove("dragged");
      handle.removeEventListener("pointermove", drag);
      onChange();
    };
    handle.addEventListener("pointermove", drag);
    handle.addEventListener("lostpointercapture", drop, { once: true });
  });
}

function middle(element) {
  const { top, height } = element.getBoundingClientRect();
  return top + height / 2;
}
