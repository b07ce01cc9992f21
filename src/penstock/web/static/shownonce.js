// What is told once only: data-shows="key" on a form puts that field of its answer into the element data-shows-in="#id", opens the dialog
// around it, and takes it out of the page when that is closed.
import { on } from "./listening.js";

on("form:done", "form[data-shows]", (form, event) => {
  const place = document.querySelector(form.dataset.showsIn);
  const dialog = place.closest("dialog");
  place.textContent = event.detail.answer[form.dataset.shows];
  dialog.addEventListener("close", () => (place.textContent = ""), { once: true });
  dialog.showModal();
});
