// Sends forms with data-api to the API as JSON (macro ui.form). Inputs stay until they are stored.
//
// Dispatches events at the form for modules of pages: "form:body" before sending, whose detail.body
// may be changed; "form:done" with detail.answer, where preventDefault() keeps the page as it is;
// "form:refused" with detail.problem, where preventDefault() hides it.
import { call, Unreachable } from "./api.js";
import { collect } from "./form-body.js";
import { clearFaults, showAtButton, showFaults, showStatus } from "./faults.js";
import { on } from "./delegation.js";
import { loadPart } from "./parts.js";
import { needsLogIn, sessionEnded } from "./session.js";
import { toast, toastLater } from "./toast.js";

const SLOW_MS = 4000;

// Fields of conflicts, by code.
const FIELD_OF_CODE = {
  name_taken: "name",
  slug_taken: "slug",
  email_taken: "email",
  already_member: "email",
  website_not_owned: "websiteId",
};

on("submit", "form[data-api]", (form, event) => {
  event.preventDefault();
  send(form);
});

export async function send(form) {
  if (form.dataset.sending) return;
  const { body, headers } = collect(form);
  const detail = { body };
  form.dispatchEvent(new CustomEvent("form:body", { detail }));
  if (form.dataset.revision) detail.body.revision = Number(form.dataset.revision);
  clearFaults(form);
  const rest = showBusy(form);
  let answer;
  try {
    const method = form.dataset.api;
    answer = await call(
      method,
      form.getAttribute("action"),
      method === "DELETE" ? undefined : detail.body,
      headers,
    );
    if (answer.ok) await finish(form, answer.body);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    showAtButton(form, [`${error.message} Nothing you typed is lost: try again.`]);
    form.querySelector(".form-faults").scrollIntoView({ block: "nearest" });
  } finally {
    rest();
  }
  if (answer && !answer.ok) refuse(form, answer);
}

function refuse(form, answer) {
  const isLogIn = form.matches('[action^="/api/auth/"]');
  if (needsLogIn(answer.status, answer.problem) && !isLogIn) {
    sessionEnded(() => send(form));
    return;
  }
  const detail = { problem: answer.problem };
  const isShown = form.dispatchEvent(
    new CustomEvent("form:refused", { bubbles: true, cancelable: true, detail }),
  );
  if (!isShown) return;
  if (answer.problem.code === "stale_revision") showFaults(form, { detail: staleMessage() });
  else showFaults(form, withField(form, answer.problem));
}

// The form keeps its old revision, so that nobody overwrites a change without having seen it.
function staleMessage() {
  const message = document.createElement("span");
  const link = document.createElement("a");
  Object.assign(link, { href: location.href, target: "_blank", rel: "noopener" });
  link.textContent = "Open the current version";
  message.append(
    "Not saved, because someone else has saved a change since you opened this page. ",
    link,
    " in a new tab and repeat your changes there.",
  );
  return message;
}

function withField(form, problem) {
  const field = FIELD_OF_CODE[problem.code];
  if (!field || problem.errors || !form.elements[field]) return problem;
  return { ...problem, errors: [{ field, code: problem.code, message: problem.detail }] };
}

async function finish(form, answer) {
  delete form.dataset.typed;
  const stays = !form.dispatchEvent(
    new CustomEvent("form:done", { bubbles: true, cancelable: true, detail: { answer } }),
  );
  const { doneTo, donePart, doneSay } = form.dataset;
  if (doneTo) {
    if (!stays) leave(form, answer);
    return;
  }
  if (doneSay) toast(doneSay);
  if (stays) return;
  form.closest("dialog")?.close();
  if (donePart) await loadPart(donePart);
  if (form.dataset.api === "POST") form.reset();
}

// Opens the address of data-done-to, in which {id} is that of the response.
export function leave({ dataset: { doneTo, doneSay } }, answer) {
  if (doneSay) toastLater(doneSay);
  location.assign(
    doneTo.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer?.[name] ?? "")),
  );
}

// Disables the buttons while a form is being sent, and shows a message when that takes long.
// Returns a function that enables them again.
function showBusy(form) {
  form.dataset.sending = "true";
  const buttons = [...form.querySelectorAll("button[type=submit]")];
  for (const button of buttons) {
    button.classList.add("busy");
    button.setAttribute("aria-disabled", "true");
  }
  const timer = setTimeout(showStatus, SLOW_MS, form, "Still sending…");
  return () => {
    clearTimeout(timer);
    showStatus(form, "");
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
