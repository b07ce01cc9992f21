// Proposals for the attempt ID, measured over the events of the steps.
import { call, Unreachable } from "../api.js";
import { formatNumber } from "../formats.js";
import { fromTemplate } from "./matches.js";

const finder = document.querySelector("#attempt-finder");
const advice = finder.querySelector("#attempt-advice");
const table = finder.querySelector("#attempt-proposals");

let latest = 0;
let measured = null; // what the shown proposals depend on

// Everything that the measures depend on.
const subject = ({ steps, conversionWindow, conversionWindowSeconds }) =>
  JSON.stringify([steps, conversionWindow, conversionWindowSeconds]);

// Hides proposals for another definition.
export function hideOldProposals(definition) {
  if (measured === null || measured === subject(definition)) return;
  latest++;
  measured = null;
  advice.hidden = table.hidden = true;
}

export async function findKeys(definition) {
  const number = ++latest;
  measured = subject(definition);
  table.hidden = true;
  say("Measuring…");
  try {
    const { name: _, ...draft } = definition;
    const answer = await call("POST", "/api/funnels/attempt-keys", draft);
    if (number !== latest) return;
    if (answer.ok) showProposals(answer.body);
    else if (answer.status === 422) say("Fill in at least two steps first, and fix their faults.");
    else say(answer.problem.detail || "The server returned an error.");
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    if (number === latest) say(error.message);
  }
}

// The keys of the proposal whose button was clicked.
export const keysOf = (button) => JSON.parse(button.value);

function say(text) {
  advice.textContent = text;
  advice.hidden = false;
}

function showProposals({ data, examined, sentence }) {
  const part = examined < 1 ? ` Counted in ${formatNumber(examined, "percent")} of them.` : "";
  say(sentence + (data.length ? part : ""));
  table.tBodies[0].replaceChildren(...data.map(makeRow));
  table.hidden = !data.length;
}

function makeRow(proposal) {
  const row = fromTemplate("#attempt-proposal");
  const name = proposal.keys.join(" with ");
  row.querySelector("[data-shows-key]").textContent = name;
  for (const cell of row.querySelectorAll("[data-is]")) {
    const style = cell.dataset.is === "share" ? "percent" : "number";
    cell.textContent = formatNumber(proposal[cell.dataset.is], style);
  }
  const button = row.querySelector("button");
  button.value = JSON.stringify(proposal.keys);
  button.setAttribute("aria-label", `Use ${name}`);
  return row;
}
