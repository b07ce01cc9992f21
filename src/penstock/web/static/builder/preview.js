// The live preview: a job per question, with its progress; a newer question ends an older one, whose answer is never shown.
import { call, Unreachable } from "../api.js";
import { formatNumber } from "../formats.js";
import { sessionEnded } from "../session.js";
import { showResult } from "./result.js";

const WAITS_MS = 500;
const POLLS_MS = [80, 120, 200, 300, 500, 800];
const DAY_MS = 86_400_000;
const SLOW_CODES = ["query_timeout", "query_too_large"];

const panel = document.querySelector("#preview");
const days = panel.querySelector("#preview-days");
const progress = panel.querySelector("progress");
const told = panel.querySelector("[data-told]");

let [latest, timer, shownFor, job] = [0, 0, null, null];

// read: () => the definition as it stands; faulty: is told the faults that the server finds in it, or none.
export function startPreview(read, faulty) {
  const ask = () => {
    clearTimeout(timer);
    timer = setTimeout(() => run(read(), faulty), WAITS_MS);
  };
  const again = () => {
    shownFor = null;
    run(read(), faulty);
  };
  days.addEventListener("change", again);
  for (const button of panel.querySelectorAll("[data-again]")) button.addEventListener("click", again);
  panel.querySelector("[data-shorter]").addEventListener("click", () => {
    days.value = "7";
    again();
  });
  run(read(), faulty);
  return ask;
}

async function run({ name: _, ...definition }, faulty) {
  const question = JSON.stringify([definition, days.value]);
  if (question === shownFor) return;
  shownFor = question;
  const mine = ++latest;
  forget();
  if (!begun(definition)) return show("unfinished");
  show("counting");
  try {
    const answer = await countedBy(mine, { ...definition, ...period() });
    if (mine === latest) conclude(answer, definition, faulty);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    if (mine === latest) show("failed", error.message);
  }
}

// Whether there is something to count at all: two steps that name what they are.
function begun({ steps = [] }) {
  return steps.filter((step) => step.value && !step.diagnostic).length >= 2;
}

function period() {
  if (!days.value) return {};
  const end = Math.ceil(Date.now() / DAY_MS) * DAY_MS; // the same all day, so that an answer can be used again
  return { startAt: end - Number(days.value) * DAY_MS, endAt: end };
}

async function countedBy(mine, question) {
  let answer = await call("POST", "/api/funnels/preview", question, { Prefer: "respond-async" });
  if (answer.status !== 202) return answer;
  const id = answer.body.id;
  if (mine !== latest) return drop(id);
  job = id;
  for (let turn = 0; answer.ok && !answer.body.resultUrl && mine === latest; turn++) {
    await new Promise((done) => setTimeout(done, POLLS_MS[Math.min(turn, POLLS_MS.length - 1)]));
    answer = await call("GET", `/api/jobs/${id}`);
    if (mine === latest && answer.ok) advance(answer.body, turn);
  }
  if (mine !== latest || !answer.ok) return answer;
  answer = await call("GET", answer.body.resultUrl);
  forget();
  return answer;
}

function forget() {
  if (job) drop(job);
  job = null;
}

const drop = (id) => call("DELETE", `/api/jobs/${id}`).catch(() => {});

function advance({ rowsRead, rowsToRead, elapsedSeconds }, turn) {
  if (turn < 2) return; // most answers are there at once
  progress.hidden = false;
  if (rowsToRead) progress.value = Math.min(rowsRead / rowsToRead, 1);
  if (elapsedSeconds > 3) told.textContent = `Still counting: ${formatNumber(rowsRead)} rows read.`;
}

function conclude(answer, definition, faulty) {
  faulty(answer.ok ? [] : answer.problem.errors ?? []);
  if (answer.ok) {
    showResult(panel, definition, answer.body);
    return show("shown");
  }
  const { status, problem } = answer;
  if (status === 422) return show("faulty");
  if (status === 401) {
    sessionEnded(() => panel.querySelector("[data-again]").click(), { insist: false });
    return show("failed", "Your session has ended. What you typed is still here.");
  }
  show(SLOW_CODES.includes(problem.code) ? "slow" : "failed", problem.detail || "The server answered with an error.");
}

function show(state, detail = "") {
  panel.dataset.state = state;
  panel.setAttribute("aria-busy", String(state === "counting"));
  const result = panel.querySelector(".preview-result");
  result.classList.toggle("old", state !== "shown");
  for (const part of panel.querySelectorAll("[data-shows]")) part.hidden = part.dataset.shows !== state;
  panel.querySelector('[data-shows="first"]').hidden = state !== "counting" || !result.hidden;
  for (const place of panel.querySelectorAll("[data-detail]")) place.textContent = detail;
  if (state !== "counting") progress.hidden = true;
  if (state === "counting") progress.removeAttribute("value");
  told.textContent = state === "shown" ? panel.querySelector("[data-sums]").textContent : detail;
}
