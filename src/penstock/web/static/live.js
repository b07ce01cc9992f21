// Polls the part #stream with the list's cursor, and adds new rows at the top of the list.
import { formatAll, formatNumber } from "./formats.js";
import { on } from "./delegation.js";
import { sessionEnded } from "./session.js";

const POLL_MS = 1500;
const FRESH_MS = 4000;
const MAX_ROWS = 200;
const MINUTE_MS = 60_000;
const FIRST_ROWS = 50; // rows of the page before the first poll

const status = document.querySelector("#watching");
let paused = false;

async function poll() {
  const list = document.querySelector("#stream");
  const address = new URL(list.dataset.address, location.href);
  address.searchParams.set("after", list.dataset.cursor);
  const response = await fetch(address, {
    headers: { "HX-Request": "true", "HX-Target": "stream" },
    signal: AbortSignal.timeout(20_000),
  });
  if (response.status === 401) {
    sessionEnded(() => {}, { insist: false });
    return "Log in again to continue";
  }
  if (!response.ok) return "No response from the server; retrying";
  const text = await response.text();
  // The list was replaced if the filters have changed.
  if (paused || list !== document.querySelector("#stream")) return status.textContent;
  const update = new DOMParser().parseFromString(text, "text/html");
  addRows(list, update.querySelector("#stream"));
  updateLost(update.querySelector("#lost"));
  return "Watching";
}

function addRows(list, update) {
  list.dataset.cursor = update.dataset.cursor;
  const rows = [...update.querySelectorAll(":scope > :not(.nothing)")];
  if (!rows.length) return;
  list.querySelector(":scope > .nothing")?.remove();
  for (const row of rows) row.classList.add("fresh");
  list.prepend(...rows);
  while (list.children.length > MAX_ROWS) list.lastElementChild.remove();
  formatAll(list);
  setTimeout(() => rows.forEach((row) => row.classList.remove("fresh")), FRESH_MS);
}

// How many of the listed events were received in the last minute. A list whose oldest event is
// that new may lack earlier ones.
function showRate() {
  const rate = document.querySelector("#rate");
  if (!rate) return; // only the page of accepted events has it
  const times = [...document.querySelectorAll("#stream .when time")];
  const since = Date.now() - MINUTE_MS;
  const count = times.filter(({ dateTime }) => Date.parse(dateTime) > since).length;
  const isFull = count === times.length && count >= FIRST_ROWS;
  const text = `${isFull ? "Over " : ""}${formatNumber(count)} per minute`;
  if (rate.textContent !== text) rate.textContent = text;
}

// Only the page of accepted events shows lost events.
function updateLost(update) {
  const shown = document.querySelector("#lost");
  if (update && shown.textContent !== update.textContent)
    shown.replaceChildren(...update.childNodes);
}

// Screen readers announce the status, so write only changes.
function showStatus(text) {
  if (status.textContent !== text) status.textContent = text;
  status.parentElement.dataset.state = text === "Watching" ? "watching" : "waiting";
}

async function watch() {
  if (!paused && !document.hidden)
    showStatus(
      await poll()
        .catch(() => "No response from the server; retrying")
        .then((text) => (paused ? "Paused" : text)),
    );
  showRate();
  setTimeout(watch, POLL_MS);
}

on("click", "#pause", (button) => {
  paused = !paused;
  button.setAttribute("aria-pressed", paused);
  showStatus(paused ? "Paused" : "Watching");
});

watch();
