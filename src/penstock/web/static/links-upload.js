// Uploads links as CSV: first to check the file without changes, then again to apply it.
import { clearFaults, showAtButton, showFaults, tooLarge } from "./faults.js";
import { formatNumber } from "./formats.js";
import { sessionEnded } from "./session.js";
import { toastLater } from "./toast.js";

const form = document.querySelector("#links-upload");
const outcome = document.querySelector("#outcome");
const apply = document.querySelector("#apply");
let checked = null; // what the latest check has read: Apply sends it even if the file changes

form.addEventListener("submit", (event) => {
  event.preventDefault();
  check();
});
form.elements.file.addEventListener("change", reset);
apply.addEventListener("click", () => send(checked, false));

function reset() {
  clearFaults(form);
  outcome.hidden = true;
  checked = null;
}

async function check() {
  reset();
  const [file] = form.elements.file.files;
  const max = Number(form.elements.file.dataset.max);
  if (!file) return fault("Choose a file.");
  if (file.size > max) return fault(tooLarge(file.size, max));
  const body = (checked = await file.arrayBuffer());
  await send(body, true);
}

async function send(body, dryRun) {
  let response;
  try {
    response = await fetch(`/api/mobile/deferred-links/csv?dryRun=${dryRun}`, {
      method: "POST",
      headers: { "Content-Type": "text/csv", Accept: "application/json" },
      body,
    });
  } catch {
    return showAtButton(form, ["The server cannot be reached. Try again."]);
  }
  if (response.status === 401) return sessionEnded(() => send(body, dryRun));
  const answer = await response.json().catch(() => ({}));
  if (dryRun && body !== checked) return; // another file was chosen in the meantime
  if (!response.ok)
    return showFaults(form, {
      ...answer,
      errors: answer.errors?.map((error) => ({
        ...error,
        field: error.field === "body" ? "file" : error.field,
      })),
    });
  if (!dryRun) {
    toastLater(`${formatNumber(answer.created)} created, ${formatNumber(answer.updated)} updated.`);
    return location.assign("/links");
  }
  show(answer);
}

function show(answer) {
  for (const count of outcome.querySelectorAll("[data-count]"))
    count.textContent = formatNumber(answer[count.dataset.count]);
  const table = outcome.querySelector("#row-faults");
  table.querySelector("tbody").replaceChildren(...answer.faults.map(rowOf));
  table.hidden = outcome.querySelector("#fix-first").hidden = answer.faults.length === 0;
  apply.hidden = answer.faults.length > 0 || answer.created + answer.updated === 0;
  outcome.hidden = false;
}

function rowOf({ row, column, message }) {
  const element = document.createElement("tr");
  for (const text of [formatNumber(row), column, message])
    element.append(Object.assign(document.createElement("td"), { textContent: text }));
  element.firstChild.className = "number";
  return element;
}

function fault(message) {
  showFaults(form, { errors: [{ field: "file", code: "required", message }] });
}
