// data-opens="#id" on a button opens a dialog. An element with data-closes in it, a click outside
// or Escape closes it.
import { on } from "./delegation.js";

on("click", "[data-opens]", (button) => openDialog(document.querySelector(button.dataset.opens)));
on("click", "[data-closes]", (button) => button.closest("dialog").close());
// Focuses the first field, or the button that keeps everything as it is, instead of Close.
export function openDialog(dialog) {
  dialog.showModal();
  const fields = [
    ...dialog.querySelectorAll(":is(input, select, textarea):not([type=hidden], [readonly])"),
    ...dialog.querySelectorAll(".actions [data-closes]"),
  ];
  fields.find((field) => field.checkVisibility())?.focus();
}

on("pointerdown", "dialog", (dialog, event) => {
  if (event.target !== dialog || dialog.hasAttribute("data-stays")) return;
  const box = dialog.getBoundingClientRect();
  const inside =
    event.clientX >= box.left &&
    event.clientX <= box.right &&
    event.clientY >= box.top &&
    event.clientY <= box.bottom;
  if (!inside) dialog.close();
});
