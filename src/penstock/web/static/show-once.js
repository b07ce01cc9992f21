// Shows values only once. data-shows="key" on a form writes that field of the response (a text or a
// list of texts) into the element of data-shows-in="#id" and opens the dialog around it. Closing
// the dialog removes the value.
import { on } from "./delegation.js";

on("form:done", "form[data-shows]", (form, event) => {
  const output = document.querySelector(form.dataset.showsIn);
  const dialog = output.closest("dialog");
  output.textContent = [event.detail.answer[form.dataset.shows]].flat().join("\n");
  dialog.addEventListener("close", () => (output.textContent = ""), { once: true });
  dialog.showModal();
});
