// Shows values only once. data-shows="key" on a form writes that field of the response (a text or a
// list of texts) into the element of data-shows-in="#id" and opens the dialog around it. Closing
// the dialog removes the value, and opens the address of data-done-to, if there is one.
import { on } from "./delegation.js";
import { leave } from "./forms.js";

on("form:done", "form[data-shows]", (form, event) =>
  showOnce(form, event, event.detail.answer[form.dataset.shows]),
);

export function showOnce(form, event, texts) {
  const output = document.querySelector(form.dataset.showsIn);
  const dialog = output.closest("dialog");
  const { doneTo } = form.dataset;
  output.textContent = [texts].flat().join("\n");
  if (doneTo) event.preventDefault();
  const close = () => {
    output.textContent = "";
    if (doneTo) leave(form, event.detail.answer);
  };
  dialog.addEventListener("close", close, { once: true });
  dialog.showModal();
}
