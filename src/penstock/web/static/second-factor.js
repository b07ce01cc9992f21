// Sets up a second factor: asks for the password, then shows the QR code and a form for the app's
// first code.
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

// Closing the dialog removes the secret from the page.
function restart(form, step) {
  step.querySelector("img").removeAttribute("src");
  step.querySelector("#second-factor-secret").textContent = "";
  step.querySelector("form").reset();
  form.reset();
  form.hidden = false;
  step.hidden = true;
}
