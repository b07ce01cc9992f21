// The live preview, one job per query, with its progress. A newer query cancels the older job.
import { call, Unreachable } from "../api.js";
import { formatNumber } from "../formats.js";
import { needsLogIn, sessionEnded } from "../session.js";
import { excludedInWords, showResult } from "./result.js";

const DELAY_MS = 500;
const POLLS_MS = [80, 120, 200, 300, 500, 800];
const DAY_MS = 86_400_000;
const SLOW_CODES = ["query_timeout", "query_too_large"];

const panel = document.querySelector("#preview");
const days = panel.querySelector("#preview-days");
const progress = panel.querySelector("progress");
const status = panel.querySelector("[data-status]");
const excludes = document.querySelector("#excludes");
const summary = document.querySelector(".preview-summary"); // on small screens

let [latest, timer, lastQuery, job] = [0, 0, null, null];

// read: () => the current definition. waits: () => whether the reader is still entering a part of
// it. showErrors: called with the errors that the server finds; returns whether one is visible.
//
// Returns a function to call after a change. What the preview shows is marked as old at once.
export function startPreview(read, waits, showErrors) {
  const count = (delay_ms) => countSoon(read(), waits(), showErrors, delay_ms);
  const again = () => {
    lastQuery = null;
    count(0);
  };
  days.addEventListener("change", again);
  for (const button of panel.querySelectorAll("[data-again]"))
    button.addEventListener("click", again);
  panel.querySelector("[data-shorter]").addEventListener("click", () => {
    days.value = "7";
    again();
  });
  count(0);
  return () => count(DELAY_MS);
}

function countSoon({ name: _, ...definition }, isWaiting, showErrors, delay_ms) {
  const query = JSON.stringify([definition, isWaiting, days.value]);
  if (query === lastQuery) return;
  lastQuery = query;
  const number = ++latest;
  clearTimeout(timer);
  cancelJob();
  if (!isReady(definition)) return show("unfinished");
  if (isWaiting) return show("incomplete");
  show("counting");
  timer = setTimeout(run, delay_ms, number, definition, showErrors);
}

async function run(number, definition, showErrors) {
  try {
    // The preview shows no cohorts, so one is enough.
    const query = { ...definition, ...period(definition), pageSize: 1 };
    const answer = await fetchResult(number, query);
    if (number === latest) finish(answer, definition, showErrors);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    if (number === latest) show("failed", error.message);
  }
}

// Whether at least two steps have a value.
function isReady({ steps = [] }) {
  return steps.filter((step) => step.value && !step.diagnostic && !step.exclude).length >= 2;
}

// Ends at midnight in UTC, so that cached results can be used all day.
function period(definition) {
  if (!days.value) return {};
  if (days.value === "settled") {
    const end = Math.floor((Date.now() - windowMs(definition)) / DAY_MS) * DAY_MS;
    return { startAt: end - 7 * DAY_MS, endAt: end };
  }
  const end = Math.ceil(Date.now() / DAY_MS) * DAY_MS;
  return { startAt: end - Number(days.value) * DAY_MS, endAt: end };
}

function windowMs({ conversionWindow, conversionWindowSeconds }) {
  if (!conversionWindow) return (conversionWindowSeconds ?? 0) * 1000;
  return conversionWindow.value * { minute: 60_000, hour: 3_600_000, day: DAY_MS }[
    conversionWindow.unit
  ];
}

async function fetchResult(number, query) {
  let answer = await call("POST", "/api/funnels/preview", query, { Prefer: "respond-async" });
  if (answer.status !== 202) return answer;
  const id = answer.body.id;
  if (number !== latest) return cancel(id);
  job = id;
  for (let turn = 0; answer.ok && !answer.body.resultUrl && number === latest; turn++) {
    await new Promise((done) => setTimeout(done, POLLS_MS[Math.min(turn, POLLS_MS.length - 1)]));
    answer = await call("GET", `/api/jobs/${id}`);
    if (number === latest && answer.ok) showProgress(answer.body, turn);
  }
  if (number !== latest || !answer.ok) return answer;
  answer = await call("GET", answer.body.resultUrl);
  cancelJob();
  return answer;
}

function cancelJob() {
  if (job) cancel(job);
  job = null;
}

const cancel = (id) => call("DELETE", `/api/jobs/${id}`).catch(() => {});

function showProgress({ rowsRead, rowsToRead, elapsedSeconds }, turn) {
  if (turn < 2) return; // most responses arrive immediately
  progress.hidden = false;
  if (rowsToRead) progress.value = Math.min(rowsRead / rowsToRead, 1);
  if (elapsedSeconds > 3)
    status.textContent = rowsRead
      ? `Still counting: ${formatNumber(rowsRead)} rows read.`
      : "Still counting.";
}

function finish(answer, definition, showErrors) {
  const hasVisibleErrors = showErrors(answer.ok ? [] : (answer.problem.errors ?? []));
  if (answer.ok) {
    showResult(panel, definition, answer.body);
    const period = days.selectedOptions[0].textContent;
    excludes.textContent = excludedInWords(answer.body, period);
    return show("shown");
  }
  const { status, problem } = answer;
  if (status === 422) return show(hasVisibleErrors ? "faulty" : "incomplete");
  if (needsLogIn(status, problem)) {
    sessionEnded(() => panel.querySelector("[data-again]").click(), { insist: false });
    return show("failed", "Your session has ended. Nothing you typed is lost.");
  }
  show(
    SLOW_CODES.includes(problem.code) ? "slow" : "failed",
    problem.detail || "The server returned an error.",
  );
}

function show(state, detail = "") {
  panel.dataset.state = state;
  panel.setAttribute("aria-busy", String(state === "counting"));
  const result = panel.querySelector(".preview-result");
  result.classList.toggle("old", state !== "shown");
  for (const part of panel.querySelectorAll("[data-shows]"))
    part.hidden = part.dataset.shows !== state;
  panel.querySelector('[data-shows="first"]').hidden = state !== "counting" || !result.hidden;
  for (const element of panel.querySelectorAll("[data-detail]")) element.textContent = detail;
  if (state !== "counting") progress.hidden = true;
  if (state === "counting") progress.removeAttribute("value");
  if (state !== "shown") excludes.textContent = state === "counting" ? "Counting…" : "";
  summary.hidden = result.hidden;
  summary.classList.toggle("old", state !== "shown");
  summary.textContent = ["rate", "sums"]
    .map((name) => panel.querySelector(`[data-${name}]`).textContent)
    .join(" · ");
  status.textContent = state === "shown" ? panel.querySelector("[data-sums]").textContent : detail;
}
