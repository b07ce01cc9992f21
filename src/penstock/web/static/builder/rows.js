// The rows of a funnel: what they show of themselves, and what their buttons do. Each change is told as an input event of the list.
import { on } from "../listening.js";
import { fromTemplate, makeMatch, matchDoes, part } from "./matches.js";

export function makeRow({ or = [], mode = null, diagnostic = false, ...match } = {}) {
  const row = fromTemplate("#row-template");
  const own = makeMatch(match);
  own.querySelector('[data-does="remove-or"]').remove();
  row.querySelector("[data-own]").replaceWith(own);
  row.querySelector('[data-list="or"]').append(...or.map(makeOr));
  part(row, "mode").querySelector("select").value = mode ?? "";
  part(row, "diagnostic").querySelector("input").checked = diagnostic;
  return row;
}

function makeOr(match) {
  const item = document.createElement("li");
  item.className = "or";
  item.append(makeMatch(match));
  return item;
}

// Numbers, titles and what fits together, after any change. limits: {rows, steps}.
export function showRows(list, counters, limits) {
  let step = 0;
  [...list.children].forEach((row, at) => {
    const diagnostic = part(row, "diagnostic").querySelector("input").checked;
    const title = diagnostic ? `Diagnostic after step ${step}` : `Step ${++step}`;
    row.classList.toggle("aside", diagnostic);
    row.querySelector(".row-number").textContent = diagnostic ? "i" : step;
    row.querySelector(".row-title").textContent = title;
    row.setAttribute("aria-label", title);
    showMode(row, diagnostic);
    say(row, title, at, list.children.length);
  });
  counters.textContent = `${step} of ${limits.steps} steps, ${list.children.length} of ${limits.rows} rows`;
  counters.classList.toggle("over", step > limits.steps || list.children.length > limits.rows);
}

function showMode(row, diagnostic) {
  const [field, ors] = [part(row, "mode"), row.querySelector('[data-list="or"]').children.length];
  const select = field.querySelector("select");
  field.hidden = !ors || diagnostic;
  select.disabled = field.hidden;
  row.classList.toggle("all-of", !select.disabled && select.value === "all_of");
  row.querySelector('[data-does="add-or"] span').textContent = row.classList.contains("all-of") ? "And" : "Or";
}

const SAYS = { up: "Move up", down: "Move down", duplicate: "Duplicate", remove: "Remove", "add-or": "Add an alternative" };

function say(row, title, at, count) {
  for (const button of row.querySelectorAll(".row-buttons [data-does], [data-does=add-or]")) {
    button.setAttribute("aria-label", `${SAYS[button.dataset.does]}: ${title}`);
  }
  row.querySelector('[data-does="up"]').setAttribute("aria-disabled", String(at === 0));
  row.querySelector('[data-does="down"]').setAttribute("aria-disabled", String(at === count - 1));
}

// What a click on a button in or below the list does; whether it was one of these. read: the definition of a row by its place.
export function rowDoes(button, list, limits, read) {
  const does = button.dataset.does;
  const row = button.closest("[data-row]");
  if (does === "up") row.previousElementSibling && row.after(row.previousElementSibling);
  else if (does === "down") row.nextElementSibling && row.before(row.nextElementSibling);
  else if (does === "duplicate") added(list, limits, makeRow(read([...list.children].indexOf(row))), row);
  else if (does === "add-step") added(list, limits, makeRow());
  else if (does === "add-diagnostic") added(list, limits, makeRow({ diagnostic: true }), lastButOne(list));
  else if (does === "remove") removed(list, row);
  else if (does === "add-or") focusFirst(row.querySelector('[data-list="or"]').appendChild(makeOr()));
  else if (does === "remove-or") removedOr(button.closest(".or"), row);
  else return matchDoes(button);
  return true;
}

function added(list, limits, row, after = list.lastElementChild) {
  if (list.children.length >= limits.rows) return;
  if (after) after.after(row);
  else list.append(row);
  focusFirst(row);
}

// A diagnostic row stands between two steps: before the last one.
const lastButOne = (list) => list.lastElementChild?.previousElementSibling ?? list.lastElementChild;

function focusFirst(row) {
  row.querySelector('[data-suggests="name"]').focus();
}

function removed(list, row) {
  const near = row.nextElementSibling ?? row.previousElementSibling;
  row.remove();
  if (near) near.querySelector('[data-does="remove"]').focus();
  else document.querySelector('[data-does="add-step"]').focus();
}

function removedOr(item, row) {
  item.remove();
  row.querySelector('[data-does="add-or"]').focus();
}

// Rows are dragged by their handle. The dragged one stays where it is in the document, and its neighbours move around it.
export function dragRows(list, told) {
  on("pointerdown", "[data-drag]", (handle, event) => {
    const row = handle.closest("[data-row]");
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    row.classList.add("dragged");
    const drag = ({ clientY }) => {
      while (row.previousElementSibling && clientY < middle(row.previousElementSibling)) row.after(row.previousElementSibling);
      while (row.nextElementSibling && clientY > middle(row.nextElementSibling)) row.before(row.nextElementSibling);
    };
    const drop = () => {
      row.classList.remove("dragged");
      handle.removeEventListener("pointermove", drag);
      told();
    };
    handle.addEventListener("pointermove", drag);
    handle.addEventListener("lostpointercapture", drop, { once: true });
  });
}

function middle(element) {
  const { top, height } = element.getBoundingClientRect();
  return top + height / 2;
}
