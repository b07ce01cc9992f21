// Setting up a second factor: the password first, then the QR code with a form for the first code
// of the app.
import { on } from "./delegation.js";

on("form:done", "#second-factor-begin", (form, event) => {
  event.preventDefault();
  const { secret, qrCode } = event.detail.answer;
  const step = document.querySelector("#second-factor-app");
  step.querySelector("img").src = qrCode;
  step.querySelector("#second-factor-secret").textContent = secret;
  form.hidden = true;
  step.hidden = false;
  step.querySelector("input").focus();
  form.closest("dialog").addEventListener("close", () => restart(form, step), { once: true });
});

// The secret leaves the page with the dialog.
function restart(form, step) {
  step.querySelector("img").removeAttribute("src");
  step.querySelector("#second-factor-secret").textContent = "";
  step.querySelector("form").reset();
  form.reset();
  form.hidden = false;
  step.hidden = true;
}
