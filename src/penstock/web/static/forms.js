// Forms with data-api are sent as JSON to the API (macro ui.form). What was typed stays until it is stored.
//
// Events at the form, for modules of pages: "form:body" before it is sent, detail.body may be changed; "form:done" with detail.answer;
// "form:refused" with detail.problem. preventDefault() of form:done keeps the page as it is.
import { call, Unreachable } from "./api.js";
import { collect } from "./collecting.js";
import { clearFaults, showAbove, showFaults } from "./faults.js";
import { on } from "./listening.js";
import { loadPart } from "./parts.js";
import { sessionEnded } from "./session.js";
import { toast, toastLater } from "./toast.js";

const SLOW_MS = 4000;

on("submit", "form[data-api]", (form, event) => {
  event.preventDefault();
  send(form);
});

export async function send(form) {
  if (form.dataset.sending) return;
  const { body, headers } = collect(form);
  const detail = { body };
  form.dispatchEvent(new CustomEvent("form:body", { detail }));
  clearFaults(form);
  const done = busy(form);
  try {
    const method = form.dataset.api;
    const answer = await call(method, form.getAttribute("action"), method === "DELETE" ? undefined : detail.body, headers);
    if (answer.ok) await finish(form, answer.body);
    else refuse(form, answer);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    showAbove(form, [`${error.message} What you typed is still here: try again.`]);
  } finally {
    done();
  }
}

function refuse(form, answer) {
  const isLogIn = form.matches('[action^="/api/auth/"]');
  if (answer.status === 401 && !isLogIn) {
    sessionEnded(() => send(form));
    return;
  }
  form.dispatchEvent(new CustomEvent("form:refused", { detail: { problem: answer.problem } }));
  showFaults(form, answer.problem);
}

async function finish(form, answer) {
  delete form.dataset.typed;
  const kept = !form.dispatchEvent(new CustomEvent("form:done", { bubbles: true, cancelable: true, detail: { answer } }));
  const { doneTo, donePart, doneSay } = form.dataset;
  if (doneTo) {
    if (doneSay) toastLater(doneSay);
    location.assign(doneTo.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer?.[name] ?? "")));
    return;
  }
  if (doneSay) toast(doneSay);
  if (kept) return;
  form.closest("dialog")?.close();
  if (donePart) await loadPart(donePart);
  if (form.dataset.api === "POST") form.reset();
}

// While it is sent: the button rests, and says so when it takes long. Answers how to end that.
function busy(form) {
  form.dataset.sending = "true";
  const buttons = [...form.querySelectorAll("button[type=submit]")];
  const told = form.querySelector(".sending");
  for (const button of buttons) {
    button.classList.add("busy");
    button.setAttribute("aria-disabled", "true");
  }
  const timer = setTimeout(() => told && (told.textContent = "Still sending…"), SLOW_MS);
  return () => {
    clearTimeout(timer);
    if (told) told.textContent = "";
    delete form.dataset.sending;
    for (const button of buttons) {
      button.classList.remove("busy");
      button.removeAttribute("aria-disabled");
    }
  };
}

on("input", "form[data-guard]", (form) => (form.dataset.typed = "true"));
addEventListener("beforeunload", (event) => {
  if (document.querySelector("form[data-guard][data-typed]")) event.preventDefault();
});

on("change", "form[data-submits-itself]", (form) => form.requestSubmit());
