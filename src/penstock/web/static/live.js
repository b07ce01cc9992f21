// A list that grows on top by itself: asks for the page's part #stream since the cursor that the list carries.
import { formatAll } from "./formats.js";
import { on } from "./listening.js";
import { sessionEnded } from "./session.js";

const LOOK_MS = 1500;
const FRESH_MS = 4000;
const MOST = 200;

const told = document.querySelector("#watching");
let paused = false;

async function look() {
  const list = document.querySelector("#stream");
  const address = new URL(list.dataset.address, location.href);
  address.searchParams.set("after", list.dataset.cursor);
  const response = await fetch(address, { headers: { "HX-Request": "true", "HX-Target": "stream" }, signal: AbortSignal.timeout(20_000) });
  if (response.status === 401) {
    sessionEnded(() => {}, { insist: false });
    return "Waiting for you to log in again";
  }
  if (!response.ok) return "No answer at the moment; trying again";
  const text = await response.text();
  if (paused || list !== document.querySelector("#stream")) return told.textContent; // the filters changed meanwhile
  add(list, new DOMParser().parseFromString(text, "text/html").querySelector("#stream"));
  return "Watching";
}

function add(list, news) {
  list.dataset.cursor = news.dataset.cursor;
  const rows = [...news.querySelectorAll(":scope > :not(.nothing)")];
  if (!rows.length) return;
  list.querySelector(":scope > .nothing")?.remove();
  for (const row of rows) row.classList.add("fresh");
  list.prepend(...rows);
  while (list.children.length > MOST) list.lastElementChild.remove();
  formatAll(list);
  setTimeout(() => rows.forEach((row) => row.classList.remove("fresh")), FRESH_MS);
}

// What is said only changes when there is something else to say: it is read out.
function tell(text) {
  if (told.textContent !== text) told.textContent = text;
  told.parentElement.dataset.state = text === "Watching" ? "watching" : "waiting";
}

async function watch() {
  if (!paused && !document.hidden) tell(await look().catch(() => "No answer at the moment; trying again").then((text) => (paused ? "Paused" : text)));
  setTimeout(watch, LOOK_MS);
}

on("click", "#pause", (button) => {
  paused = !paused;
  button.setAttribute("aria-pressed", paused);
  tell(paused ? "Paused" : "Watching");
});

watch();
