// Sends a file to be imported, and tells how much of it is sent: fetch cannot.
import { clearFaults, showAbove, showFaults } from "./faults.js";
import { formatNumber } from "./formats.js";
import { sessionEnded } from "./session.js";
import { toastLater } from "./toast.js";

const form = document.querySelector("#upload-form");
const place = document.querySelector("#uploading");
const button = form.querySelector("button[type=submit]");
let sending = null;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!sending) send();
});
form.closest("dialog").addEventListener("close", () => sending?.abort());

function send() {
  clearFaults(form);
  const [file] = form.elements.file.files;
  if (!file) return fault("required", "Choose a file.");
  if (file.size > Number(form.elements.file.dataset.most)) {
    return fault("too_large", `The file has ${formatNumber(file.size, "bytes")}; at most ${formatNumber(Number(form.elements.file.dataset.most), "bytes")} are taken at once.`);
  }
  const asked = new URLSearchParams({ websiteId: form.elements.websiteId.value, fileName: file.name.slice(0, 200) });
  sending = new XMLHttpRequest();
  sending.open("POST", `/api/imports?${asked}`);
  sending.setRequestHeader("Content-Type", "application/x-ndjson");
  sending.upload.addEventListener("progress", (told) => told.lengthComputable && show(told.loaded / told.total));
  sending.addEventListener("load", () => answered(sending));
  sending.addEventListener("error", () => showAbove(form, ["The server cannot be reached, or it stopped reading. The file is still chosen: try again."]));
  sending.addEventListener("loadend", rest);
  show(0);
  button.setAttribute("aria-disabled", "true");
  sending.send(file);
}

function answered({ status, responseText }) {
  if (status === 401) return sessionEnded(send);
  let answer = {};
  try {
    answer = JSON.parse(responseText);
  } catch { /* a proxy's page */ }
  if (status !== 201) return showFaults(form, answer);
  toastLater("The file is here; it is being read.");
  location.assign(`/imports/${encodeURIComponent(answer.id)}`);
}

function fault(code, message) {
  showFaults(form, { errors: [{ field: "file", code, message }] });
}

function show(share) {
  place.hidden = false;
  place.querySelector("progress").value = share;
  place.querySelector("[role=status]").textContent = share < 1 ? "Sending…" : "Sent; being kept…";
}

function rest() {
  sending = null;
  place.hidden = true;
  button.removeAttribute("aria-disabled");
}
