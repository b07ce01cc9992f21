// The form that sends a file for its dry run, chosen by click, by keyboard or by drag and drop.
import { openDialog } from "./dialogs.js";
import { clearFaults, showAtButton, showFaults, tooLarge } from "./faults.js";
import { guessFormat, headOf } from "./file-formats.js";
import { needsLogIn, sessionEnded } from "./session.js";

const form = document.querySelector("#upload-form");
const dialog = form.closest("dialog");
const progress = document.querySelector("#uploading");
const button = form.querySelector("button[type=submit]");
const opener = document.querySelector('[data-opens="#upload"]');
const formats = JSON.parse(form.elements.format.dataset.formats);
const NDJSON = 'one JSON object per line, such as {"type": "event", …}.';
let request = null;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!request) send();
});
form.elements.format.addEventListener("change", check);
form.elements.file.addEventListener("change", async () => {
  const [file] = form.elements.file.files;
  const format = file && (await guessFormat(file, formats, form.elements.format.value));
  if (format) form.elements.format.value = format;
  check();
});
dialog.addEventListener("close", () => request?.abort());
showTimezone();

// The whole page accepts files, so that a file that misses the dialog does not replace the page.
const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
for (const type of ["dragenter", "dragover"]) {
  addEventListener(type, (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = opener ? "copy" : "none";
    document.body.classList.toggle("dropping", Boolean(opener));
  });
}
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping");
});
addEventListener("drop", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  document.body.classList.remove("dropping");
  if (!opener || request) return;
  if (!dialog.open) openDialog(dialog);
  const { files } = event.dataTransfer;
  if (files.length !== 1) return fault("too_many", "Drop one file at a time.");
  form.elements.file.files = files;
  form.elements.file.dispatchEvent(new Event("change", { bubbles: true }));
});

async function check() {
  clearFaults(form);
  for (const guide of form.querySelectorAll("[data-guide]"))
    guide.hidden = guide.dataset.guide !== form.elements.format.value;
  showTimezone();
  const [file] = form.elements.file.files;
  const message = file && (await formatError(file));
  if (message) fault("not_json", message);
}

// Only some formats have times without an offset.
function showTimezone() {
  const { timezone } = form.elements;
  timezone.disabled = !formats[form.elements.format.value].hasLocalTimes;
  timezone.closest(".field").hidden = timezone.disabled;
}

async function send() {
  clearFaults(form);
  const [file] = form.elements.file.files;
  if (!form.elements.websiteId.value)
    return fault("required", "Choose a website or app.", "websiteId");
  if (!file) return fault("required", "Choose a file.");
  const maxBytes = Number(form.elements.file.dataset.max);
  if (file.size > maxBytes) {
    return fault("too_large", tooLarge(file.size, maxBytes));
  }
  request = new XMLHttpRequest();
  const wrongFormat = await formatError(file);
  if (wrongFormat) {
    request = null;
    return fault("not_json", wrongFormat);
  }
  const query = new URLSearchParams({
    websiteId: form.elements.websiteId.value,
    fileName: file.name.slice(0, 200),
    format: form.elements.format.value,
    dryRun: "true",
  });
  const timezone = form.elements.timezone.value.trim();
  if (timezone && !form.elements.timezone.disabled) query.set("timezone", timezone);
  request.open("POST", `/api/imports?${query}`);
  request.setRequestHeader("Content-Type", formats[form.elements.format.value].mediaType);
  request.upload.addEventListener(
    "progress",
    (event) => event.lengthComputable && show(event.loaded / event.total),
  );
  request.addEventListener("load", () => finish(request));
  request.addEventListener("error", () =>
    showAtButton(form, ["The server cannot be reached. The file is still selected: try again."]),
  );
  request.addEventListener("loadend", rest);
  show(0);
  button.setAttribute("aria-disabled", "true");
  request.send(file);
}

function finish({ status, responseText }) {
  let answer = {};
  try {
    answer = JSON.parse(responseText);
  } catch {
    /* a proxy's error page */
  }
  if (needsLogIn(status, answer)) return sessionEnded(send);
  if (status !== 201) return showFaults(form, answer);
  location.assign(`/imports/${encodeURIComponent(answer.id)}`);
}

// Returns why a file is not in the selected format, judging by its first bytes; null if it may be.
// The server checks all other formats.
async function formatError(file) {
  const start = await headOf(file);
  if (start === null) return null;
  if (start === "") return file.size ? null : "This file is empty.";
  if (form.elements.format.value !== "ndjson") return null;
  const [first] = start.split("\n", 1);
  if (first.trim() === "{")
    return "JSON objects in this file span several lines. Import NDJSON: each object on one line.";
  if (first.startsWith("{")) return null;
  if (start.startsWith("[")) return `This file is one JSON array. Import NDJSON: ${NDJSON}`;
  if (/^[^\n]*[,;\t|]/.test(start)) return "This is a CSV file. Select that format.";
  return `This is not NDJSON: ${NDJSON}`;
}

function fault(code, message, field = "file") {
  showFaults(form, { errors: [{ field, code, message }] });
}

function show(share) {
  progress.hidden = false;
  progress.querySelector("progress").value = share;
  progress.querySelector("[role=status]").textContent =
    share < 1 ? "Sending…" : "Upload complete; saving…";
}

function rest() {
  request = null;
  progress.hidden = true;
  button.removeAttribute("aria-disabled");
}
