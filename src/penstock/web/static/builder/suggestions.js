// Suggestions for a builder's inputs: goals, and stored event names, properties and values.
import { call, Unreachable } from "../api.js";
import { formatNumber } from "../formats.js";
import { part, selectionOf } from "./matches.js";

const KINDS = {
  Pageview: "pageview",
  "Screen view": "screenview",
  Event: "event",
  Transaction: "transaction",
};
const MAX_SUGGESTIONS = 12;

// Pauses before retries after an empty answer, because it takes a moment until new events are
// suggested.
export const RETRIES_MS = [300, 600, 1200, 2400, 4800, 9600, 9600, 9600];

export async function suggest(input) {
  const match = input.closest("[data-match]");
  const selection = match ? selectionOf(match) : eventOf(input);
  const typed = input.value;
  switch (input.dataset.suggests) {
    case "name":
      return selection.type === "Goal" ? goalsLike(typed) : namesLike(selection.type, typed);
    case "value":
      return valuesLike(
        part(input.closest(".filter"), "property").querySelector("input").value,
        selection,
        typed,
      );
    case "property":
      return propertiesLike(selection, typed);
    default:
      return (await propertiesLike(selection, typed)).filter(({ value }) => !value.startsWith("$"));
  }
}

// The event that a menu of a report is about: its type and value. A pattern stands for all events.
function eventOf(input) {
  const { eventType: type, eventName: value } = input.closest("[data-event-type]")?.dataset ?? {};
  return KINDS[type] && !value.includes("*") ? { type, value } : {};
}

// Whether events with this name are stored; true if that is unknown.
export async function isKnown({ type, value }) {
  if (!KINDS[type] || !value || (type === "Pageview" && !/^\/[^*?#]*$/.test(value))) return true;
  if (isAny({ type, value })) return true;
  const path = type === "Pageview" && value.length > 1 ? value.replace(/\/+$/, "") : value;
  const page = await get("/api/schema/events", { kind: KINDS[type], search: path, pageSize: 100 });
  return !page || page.data.some(({ name }) => name === path) || page.total > page.data.length;
}

const isAny = ({ type, value }) => type === "Event" && value === "*";

async function namesLike(type, search) {
  const page = await get("/api/schema/events", {
    kind: KINDS[type],
    search,
    pageSize: MAX_SUGGESTIONS,
  });
  const names = (page?.data ?? []).map(({ name, count }) => ({
    value: name,
    note: formatNumber(count),
  }));
  return type === "Event" && ["", "*"].includes(search)
    ? [...names, { value: "*", note: "Any event" }]
    : names;
}

async function goalsLike(search) {
  const page = await get("/api/goals", { search, pageSize: MAX_SUGGESTIONS });
  return (page?.data ?? []).map(({ name, match }) => ({ value: name, note: match.type }));
}

async function propertiesLike({ type, value }, search) {
  const page = await get("/api/schema/properties", {
    kind: KINDS[type],
    event: KINDS[type] && !isAny({ type, value }) ? value : undefined,
    search,
    pageSize: MAX_SUGGESTIONS,
  });
  return (page?.data ?? []).map(({ property, count, types }) => ({
    value: property,
    note: `${types[0]?.type ?? ""} ${formatNumber(count)}`,
  }));
}

async function valuesLike(property, { type, value }, search) {
  if (!property) return [];
  const page = await get("/api/schema/values", {
    property,
    kind: KINDS[type],
    event: KINDS[type] && !isAny({ type, value }) ? value : undefined,
    search,
    pageSize: MAX_SUGGESTIONS,
  });
  return (page?.data ?? []).map(({ value, count }) => ({
    value: String(value),
    note: formatNumber(count),
  }));
}

// Returns no suggestions without a response.
async function get(path, parameters) {
  const query = Object.entries(parameters).filter(
    ([, value]) => value !== undefined && value !== "",
  );
  try {
    return (await call("GET", `${path}?${new URLSearchParams(query)}`)).body;
  } catch (error) {
    if (error instanceof Unreachable) return undefined;
    throw error;
  }
}
