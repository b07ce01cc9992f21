// Buttons that add the most frequent properties of the first step to the breakdown.
import { fromTemplate, selectionOf } from "./matches.js";
import { ownProperties } from "./suggestions.js";

const MAX_IDEAS = 4;
let shown = null; // the first step and the properties of its events

// container: element for the buttons. row: the first step. definition: the form's.
export async function showIdeas(container, row, definition) {
  const { breakdownProperties = [], attemptProperties = [] } = definition;
  // A breakdown by an ID has a cohort for every attempt.
  const ids = [definition.attemptProperty, definition.sequenceProperty, ...attemptProperties];
  const match = row?.querySelector("[data-match]");
  const selection = match && selectionOf(match);
  const key = JSON.stringify(selection ?? null);
  if (key !== shown?.key) {
    shown = { key, properties: [] };
    container.replaceChildren();
    const properties = selection?.value ? await ownProperties(selection) : [];
    if (shown.key !== key) return; // the first step has changed
    shown.properties = properties;
  }
  const left = shown.properties
    .filter((name) => !ids.includes(name))
    .slice(0, MAX_IDEAS)
    .filter((name) => !breakdownProperties.includes(name));
  container.replaceChildren(...left.map(makeIdea));
}

function makeIdea(property) {
  const button = fromTemplate("#idea-template");
  button.value = property;
  button.querySelector("bdi").textContent = property;
  return button;
}
