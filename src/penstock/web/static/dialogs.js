// data-opens="#id" on a button opens a dialog. An element with data-closes in it, a click outside
// or Escape closes it.
import { on } from "./delegation.js";

on("click", "[data-opens]", (button) => document.querySelector(button.dataset.opens).showModal());
on("click", "[data-closes]", (button) => button.closest("dialog").close());
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
