// Uploads a file to import, by XMLHttpRequest, because fetch does not report upload progress.
import { clearFaults, showAbove, showFaults, tooLarge } from "./faults.js";
import { needsLogIn, sessionEnded } from "./session.js";
import { toastLater } from "./toast.js";

const form = document.querySelector("#upload-form");
const progress = document.querySelector("#uploading");
const button = form.querySelector("button[type=submit]");
const formats = JSON.parse(form.elements.format.dataset.formats);
const NDJSON = 'one JSON object per line, such as {"type": "event", …}.';
// Beginnings of files that only the server reads: gzip, Zstandard, ZIP and UTF-16.
const UNREADABLE_HERE = [
  [0x1f, 0x8b],
  [0x28, 0xb5, 0x2f, 0xfd],
  [0x50, 0x4b, 0x03, 0x04],
  [0xff, 0xfe],
  [0xfe, 0xff],
];
let request = null;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!request) send();
});
form.elements.format.addEventListener("change", check);
form.elements.file.addEventListener("change", () => {
  const name = form.elements.file.files[0]?.name.toLowerCase() ?? "";
  const known = [form.elements.format.value, ...Object.keys(formats)].find((format) =>
    formats[format].endings.some((ending) => name.endsWith(ending)),
  );
  if (known) form.elements.format.value = known;
  check();
});
form.closest("dialog").addEventListener("close", () => request?.abort());

async function check() {
  clearFaults(form);
  const [file] = form.elements.file.files;
  const message = file && (await formatError(file));
  if (message) fault("not_json", message);
}

async function send() {
  clearFaults(form);
  const [file] = form.elements.file.files;
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
  });
  request.open("POST", `/api/imports?${query}`);
  request.setRequestHeader("Content-Type", formats[form.elements.format.value].mediaType);
  request.upload.addEventListener(
    "progress",
    (event) => event.lengthComputable && show(event.loaded / event.total),
  );
  request.addEventListener("load", () => finish(request));
  request.addEventListener("error", () =>
    showAbove(form, ["The server cannot be reached. The file is still selected: try again."]),
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
  toastLater("Upload complete. The import has started.");
  location.assign(`/imports/${encodeURIComponent(answer.id)}`);
}

// Returns why a file is not in the selected format, judging by its first bytes; null if it may be.
// The server checks all other formats.
async function formatError(file) {
  const bytes = new Uint8Array(await file.slice(0, 4096).arrayBuffer());
  if (UNREADABLE_HERE.some((magic) => magic.every((byte, at) => bytes[at] === byte))) return null;
  const start = new TextDecoder()
    .decode(bytes)
    .replace(/^\uFEFF/, "")
    .trimStart();
  if (start === "") return file.size > bytes.length ? null : "This file is empty.";
  if (form.elements.format.value !== "ndjson") return null;
  const [first] = start.split("\n", 1);
  if (first.trim() === "{")
    return "JSON objects in this file span several lines. Import NDJSON: each object on one line.";
  if (first.startsWith("{")) return null;
  if (start.startsWith("[")) return `This file is one JSON array. Import NDJSON: ${NDJSON}`;
  if (/^[^\n]*[,;\t]/.test(start)) return "This is a CSV file. Select that format.";
  return `This is not NDJSON: ${NDJSON}`;
}

function fault(code, message) {
  showFaults(form, { errors: [{ field: "file", code, message }] });
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
