// Inputs with data-suggests suggest values for the typed text: a combobox with a listbox, built by
// the ARIA practices. Any text is valid.
import { on } from "../delegation.js";

const DELAY_MS = 150;
const EDGE_PX = 8;
let [input, options, active, latest, timer] = [null, [], -1, 0, 0];
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
// it was clicked.
export function suggestBy(suggest, retries_ms) {
  request = (combobox, delay_ms) => requestSoon(combobox, suggest, delay_ms, retries_ms);
  for (const type of ["focusin"]) on(type, "[data-suggests]", prepare);
  on(
    "input",
    "[data-suggests]",
    (combobox, event) => event.isTrusted && request(combobox, DELAY_MS),
  );
  on("click", "[data-suggests]", (combobox) => popup.hidden && request(combobox, 0));
  on("focusout", "[data-suggests]", close);
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
  if (focused.value) request(focused, 0);
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

function requestSoon(combobox, suggest, delay_ms, retries_ms) {
  const number = ++latest;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const suggestions = await suggest(combobox);
    if (number !== latest || document.activeElement !== combobox) return;
    open(combobox, suggestions);
    const [next_ms, ...later_ms] = retries_ms;
    if (!suggestions.length && next_ms) requestSoon(combobox, suggest, next_ms, later_ms);
  }, delay_ms);
}

function open(combobox, suggestions) {
  close();
  if (!suggestions.length || (suggestions.length === 1 && suggestions[0].value === combobox.value))
    return;
  [input, options] = [combobox, suggestions];
  popup.replaceChildren(...suggestions.map(makeOption));
  combobox.closest(".field, .breakdown, .filter-field").append(popup);
  popup.hidden = false;
  popup.classList.remove("leftwards");
  popup.classList.toggle("leftwards", popup.getBoundingClientRect().right > innerWidth - EDGE_PX);
  combobox.setAttribute("aria-expanded", "true");
  combobox.setAttribute("aria-controls", popup.id);
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

function close() {
  latest++;
  clearTimeout(timer);
  popup.hidden = true;
  active = -1;
  input?.setAttribute("aria-expanded", "false");
  input?.removeAttribute("aria-controls");
  input?.removeAttribute("aria-activedescendant");
  input = null;
}

function handleKey(combobox, event) {
  if (event.isComposing) return;
  if (event.key === "Enter") {
    event.preventDefault(); // selects an option instead of sending the form
    if (!popup.hidden && active >= 0) pick(active, false);
  } else if (event.key === "Escape") {
    if (!popup.hidden) event.stopPropagation();
    close();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (popup.hidden) request(combobox, 0);
    else move(event.key === "ArrowDown" ? 1 : -1);
  }
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
