// Inputs with data-suggests offer what fits to what is typed: a combobox with a listbox, after the ARIA practices. Any text may be typed.
import { on } from "../listening.js";

const WAITS_MS = 150;
let [input, options, active, asked, timer] = [null, [], -1, 0, 0];

const popup = document.createElement("ul");
popup.id = "suggestions";
popup.className = "suggestions";
popup.setAttribute("role", "listbox");
popup.setAttribute("aria-label", "Suggestions");
popup.hidden = true;

// suggest: (input) => a promise of [{value, note}], the best first.
export function suggestBy(suggest) {
  for (const type of ["focusin"]) on(type, "[data-suggests]", prepare);
  on("input", "[data-suggests]", (one, event) => event.isTrusted && ask(one, suggest, WAITS_MS));
  on("click", "[data-suggests]", (one) => popup.hidden && ask(one, suggest, 0));
  on("focusout", "[data-suggests]", close);
  on("keydown", "[data-suggests]", (one, event) => pressed(one, event, suggest));
  popup.addEventListener("pointerdown", (event) => event.preventDefault()); // the focus stays in the input
  popup.addEventListener("click", (event) => {
    const item = event.target.closest("[role=option]");
    if (item) pick([...popup.children].indexOf(item));
  });
}

function prepare(one) {
  one.setAttribute("role", "combobox");
  one.setAttribute("aria-autocomplete", "list");
  one.setAttribute("aria-expanded", String(one === input && !popup.hidden));
}

function ask(one, suggest, delay_ms) {
  const mine = ++asked;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const found = await suggest(one);
    if (mine === asked && document.activeElement === one) open(one, found);
  }, delay_ms);
}

function open(one, found) {
  close();
  if (!found.length || (found.length === 1 && found[0].value === one.value)) return;
  [input, options] = [one, found];
  popup.replaceChildren(...found.map(optionOf));
  one.closest(".field, .breakdown").append(popup);
  popup.hidden = false;
  one.setAttribute("aria-expanded", "true");
  one.setAttribute("aria-controls", popup.id);
}

function optionOf({ value, note }, at) {
  const item = document.createElement("li");
  item.id = `suggestion-${at}`;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", "false");
  item.append(Object.assign(document.createElement("bdi"), { textContent: value }), Object.assign(document.createElement("span"), { textContent: note }));
  return item;
}

function close() {
  asked++;
  clearTimeout(timer);
  popup.hidden = true;
  active = -1;
  input?.setAttribute("aria-expanded", "false");
  input?.removeAttribute("aria-controls");
  input?.removeAttribute("aria-activedescendant");
  input = null;
}

function pressed(one, event, suggest) {
  if (event.isComposing) return;
  if (event.key === "Enter") {
    event.preventDefault(); // a choice, not the end of the form
    if (!popup.hidden && active >= 0) pick(active);
  } else if (event.key === "Escape" && !popup.hidden) {
    event.stopPropagation();
    close();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (popup.hidden) ask(one, suggest, 0);
    else move(event.key === "ArrowDown" ? 1 : -1);
  }
}

function move(by) {
  popup.children[active]?.setAttribute("aria-selected", "false");
  active = active < 0 && by < 0 ? options.length - 1 : (active + by + options.length) % options.length;
  const item = popup.children[active];
  item.setAttribute("aria-selected", "true");
  item.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", item.id);
}

function pick(at) {
  const [one, { value }] = [input, options[at]];
  close();
  one.value = value;
  one.dispatchEvent(new Event("input", { bubbles: true }));
}
