// Opens and closes the folders in the list of funnels. This browser remembers the closed ones.
import { on } from "./delegation.js";

const KEY = "closed-folders";

on("click", "[data-folder]", (button) => {
  const closed = readClosed();
  const { folder } = button.dataset;
  if (!closed.delete(folder)) closed.add(folder);
  try {
    localStorage.setItem(KEY, JSON.stringify([...closed]));
  } catch {
    // Without storage, the folder stays as it is until the page is left.
  }
  show(button, !closed.has(folder));
});

document.addEventListener("htmx:load", (event) => showAll(event.detail.elt));
showAll(document);

function showAll(root) {
  const closed = readClosed();
  for (const button of root.querySelectorAll("[data-folder]"))
    show(button, !closed.has(button.dataset.folder));
}

function show(button, isOpen) {
  button.setAttribute("aria-expanded", String(isOpen));
  document.getElementById(button.getAttribute("aria-controls")).hidden = !isOpen;
}

function readClosed() {
  try {
    return new Set(JSON.parse(localStorage.getItem(KEY)) ?? []);
  } catch {
    return new Set();
  }
}
