// Inputs with data-suggests suggest values for the typed text: a combobox with a listbox, built by
// the ARIA practices. Any text is valid.
//
// While the reader types, the list is narrowed at once and its first match is selected. So Enter
// never takes a suggestion that the text does not match. It takes the first match, also if the list
// still has to be loaded; Escape keeps the text.
import { on } from "../delegation.js";

const DELAY_MS = 150;
const EDGE_PX = 8;
let [input, options, active, latest, timer] = [null, [], -1, 0, 0];
// What was suggested last at the focused input; whether the reader is typing into it, waits for
// suggestions, and has pressed Enter meanwhile.
let [loaded, isTyping, isWaiting, isEntered] = [[], false, false, false];
let request = null;

const popup = document.createElement("ul");
popup.id = "suggestions";
popup.className = "suggestions";
popup.setAttribute("role", "listbox");
popup.setAttribute("aria-label", "Suggestions");
popup.hidden = true;

// suggest: (input) => a promise of [{value, note, badge}], best first.
// retries_ms: pauses before further calls while the list is empty and the input has the focus.
//
// A picked suggestion dispatches "suggestion:picked" at the input, with the suggestion and whether
// it was clicked. Enter that leaves the text as it is dispatches "suggestion:entered".
export function suggestBy(suggest, retries_ms) {
  request = (combobox, delay_ms) => requestSoon(combobox, suggest, delay_ms, retries_ms);
  on("focusin", "[data-suggests]", prepare);
  on("input", "[data-suggests]", (combobox, event) => event.isTrusted && handleText(combobox));
  on("click", "[data-suggests]", (combobox) => popup.hidden && request(combobox, 0));
  on("focusout", "[data-suggests]", leave);
  on("keydown", "[data-suggests]", handleKey);
  // Keep the focus in the input.
  popup.addEventListener("pointerdown", (event) => event.preventDefault());
  popup.addEventListener("click", (event) => {
    const item = event.target.closest("[role=option]");
    if (item) pick([...popup.children].indexOf(item), true);
  });
  const focused = document.activeElement;
  if (!focused.matches("[data-suggests]")) return;
  prepare(focused); // the reader focused an input before this module was loaded
  if (focused.value) handleText(focused);
}

// Moves the focus to an input and opens its suggestions.
export function openSuggestions(combobox) {
  combobox.focus();
  request(combobox, 0);
}

function prepare(combobox) {
  combobox.setAttribute("role", "combobox");
  combobox.setAttribute("aria-autocomplete", "list");
  combobox.setAttribute("aria-expanded", String(combobox === input && !popup.hidden));
}

function handleText(combobox) {
  isTyping = true;
  const text = combobox.value.toLowerCase();
  const matches = ({ value, badge }) =>
    [value, badge].some((name) => name?.toLowerCase().includes(text));
  show(combobox, loaded.filter(matches));
  request(combobox, DELAY_MS);
}

function requestSoon(combobox, suggest, delay_ms, retries_ms) {
  const number = ++latest;
  clearTimeout(timer);
  [isWaiting, isEntered] = [true, false];
  timer = setTimeout(async () => {
    const suggestions = await suggest(combobox);
    if (number !== latest || document.activeElement !== combobox) return;
    const enters = isEntered;
    [isWaiting, isEntered, loaded] = [false, false, suggestions];
    show(combobox, suggestions);
    if (enters) enter(combobox);
    const [next_ms, ...later_ms] = retries_ms;
    if (!suggestions.length && next_ms) {
      requestSoon(combobox, suggest, next_ms, later_ms);
      isWaiting = false; // Enter does not wait for events that may never be stored
    }
  }, delay_ms);
}

// Shows suggestions, those first that are the text or begin with it.
function show(combobox, suggestions) {
  hide();
  const text = combobox.value.toLowerCase();
  const rank = ({ value }) =>
    value === combobox.value ? 0 : value.toLowerCase().startsWith(text) ? 1 : 2;
  const ranked = isTyping ? [...suggestions].sort((a, b) => rank(a) - rank(b)) : suggestions;
  const [first, second] = ranked;
  // An exact match says nothing new, unless it brings a kind, such as that of a transaction.
  if (!first || (!second && first.value === combobox.value && !(isTyping && first.badge))) return;
  [input, options] = [combobox, ranked];
  popup.replaceChildren(...ranked.map(makeOption));
  combobox.closest(".field, .breakdown, .filter-field").append(popup);
  popup.hidden = false;
  popup.classList.remove("leftwards");
  popup.classList.toggle("leftwards", popup.getBoundingClientRect().right > innerWidth - EDGE_PX);
  combobox.setAttribute("aria-expanded", "true");
  combobox.setAttribute("aria-controls", popup.id);
  if (isTyping && text) move(1);
}

function makeOption({ value, note, badge }, index) {
  const item = document.createElement("li");
  item.id = `suggestion-${index}`;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", "false");
  if (badge)
    item.append(
      Object.assign(document.createElement("span"), { className: "badge", textContent: badge }),
      " ",
    );
  item.append(
    Object.assign(document.createElement("bdi"), { textContent: value }),
    " ",
    Object.assign(document.createElement("span"), { className: "note", textContent: note }),
  );
  return item;
}

function hide() {
  popup.hidden = true;
  active = -1;
  input?.setAttribute("aria-expanded", "false");
  input?.removeAttribute("aria-controls");
  input?.removeAttribute("aria-activedescendant");
  input = null;
}

// Closes the list, and ignores suggestions that still have to arrive.
function close() {
  latest++;
  clearTimeout(timer);
  [isTyping, isWaiting, isEntered] = [false, false, false];
  hide();
}

function leave() {
  loaded = []; // those of another input
  close();
}

function handleKey(combobox, event) {
  if (event.isComposing) return;
  if (event.key === "Enter") {
    event.preventDefault(); // selects an option instead of sending the form
    enter(combobox);
  } else if (event.key === "Escape") {
    // Otherwise it would close the menu or dialog around the list, or clear the text.
    if (!popup.hidden || isWaiting) event.preventDefault();
    close();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (popup.hidden) request(combobox, 0);
    else move(event.key === "ArrowDown" ? 1 : -1);
  }
}

function enter(combobox) {
  if (isTyping && isWaiting && active < 0) {
    isEntered = true;
    return;
  }
  const text = combobox.value;
  if (active < 0) close();
  else pick(active, false);
  if (combobox.value === text)
    combobox.dispatchEvent(new CustomEvent("suggestion:entered", { bubbles: true }));
}

function move(by) {
  popup.children[active]?.setAttribute("aria-selected", "false");
  active =
    active < 0 && by < 0 ? options.length - 1 : (active + by + options.length) % options.length;
  const item = popup.children[active];
  item.setAttribute("aria-selected", "true");
  item.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", item.id);
}

function pick(index, isClicked) {
  const [combobox, suggestion] = [input, options[index]];
  close();
  combobox.value = suggestion.value;
  const detail = { suggestion, isClicked };
  combobox.dispatchEvent(new CustomEvent("suggestion:picked", { bubbles: true, detail }));
  combobox.dispatchEvent(new Event("input", { bubbles: true }));
}
