// Suggestions for inputs of the builder and of filters: goals, and stored event names, properties
// and values.
import { call, Unreachable } from "../api.js";
import { formatNumber, formatTime } from "../formats.js";
import { part, selectionOf } from "./matches.js";

const KINDS = {
  Pageview: "pageview",
  "Screen view": "screenview",
  Event: "event",
  Transaction: "transaction",
};
const TYPES = Object.fromEntries(Object.entries(KINDS).map(([type, kind]) => [kind, type]));
const ANY = { value: "*", type: "Event", badge: "Event", note: "Any event" };
const BADGES = { Pageview: "Page view" };
const TRAIT = "$trait.";
const FIRST_TIME = {
  value: "$first_time",
  operator: "is_true",
  badge: "First time",
  note: "first ever",
};
const COHORT = { value: "$cohort", operator: "equals", badge: "Cohort", note: "saved visitors" };
const MAX_SUGGESTIONS = 12;
const MAX_PROPERTIES = 100; // of which the own ones come first
const MANY_VALUES = 100; // for a breakdown; also the maximum that the API counts

// Pauses before retries after an empty answer, because it takes a moment until new events are
// suggested.
export const RETRIES_MS = [300, 600, 1200, 2400, 4800, 9600, 9600, 9600];

export async function suggest(input) {
  const match = input.closest("[data-match]");
  const selection = match ? selectionOf(match) : eventOf(input);
  const typed = input.value;
  switch (input.dataset.suggests) {
    case "name":
      return eventsLike(match, typed);
    case "value":
      return valuesLike(
        part(input.closest(".filter"), "property").querySelector("input").value,
        selection,
        typed,
      );
    case "property":
      return [
        ...(await propertiesLike(selection, typed)),
        ...(input.closest(".filter") ? firstTimeLike(typed) : []),
        // Of saved filters, only those of a funnel's rows may name a cohort.
        ...(input.form.querySelector("[data-row]") && COHORT.value.includes(typed) ? [COHORT] : []),
      ];
    case "breakdown":
      return [
        ...(await propertiesLike(entryOf(input), typed, { nearlyUniqueLast: true })),
        ...(await cohortsLike(typed, `${COHORT.value}.`)),
      ];
    case "event":
      return namesLike(typed);
    case "trait":
      return (await propertiesLike({}, TRAIT + typed)).map((option) => ({
        ...option,
        value: option.value.slice(TRAIT.length),
        badge: undefined,
      }));
    case "traitValue":
      return input.form.trait.value ? valuesLike(TRAIT + input.form.trait.value, {}, typed) : [];
    default:
      return (await propertiesLike(selection, typed)).filter(isOwn);
  }
}

// The event that a menu of a report is about: its type and value. A pattern stands for all events.
function eventOf(input) {
  const { eventType: type, eventName: value } = input.closest("[data-event-type]")?.dataset ?? {};
  return KINDS[type] && !value.includes("*") ? { type, value } : {};
}

// The event whose properties break a funnel down: that of a report's menu, or of the first step.
function entryOf(input) {
  const first = input.form.querySelector("[data-row] [data-match]");
  return first ? selectionOf(first) : eventOf(input);
}

// The types whose events have this name, or null if that is unknown, as for a path with a wildcard.
export async function typesOf({ type, value }) {
  if (type === "Goal" || !value || isAny({ type, value })) return null;
  if (type === "Pageview" && !/^\/[^*?#]*$/.test(value)) return null;
  const path = value.startsWith("/") && value.length > 1 ? value.replace(/\/+$/, "") : value;
  const page = await get("/api/schema/events", { search: path, pageSize: MAX_PROPERTIES });
  if (!page) return null;
  const types = page.data.filter(({ name }) => [value, path].includes(name)).map(typeOf);
  return types.length || page.total <= page.data.length ? types : null;
}

// The most frequent own properties of a match's events that make large enough cohorts.
export async function ownProperties(selection) {
  return (await propertiesLike(selection, ""))
    .filter((option) => isOwn(option) && !option.isNearlyUnique)
    .map(({ value }) => value);
}

const isAny = ({ type, value }) => type === "Event" && value === "*";
const typeOf = ({ kind }) => TYPES[kind];
const isOwn = ({ value }) => !value.startsWith("$");

// Events of all kinds, and goals if the form offers them.
async function eventsLike(match, search) {
  const hasGoals = part(match, "type").querySelector("option[value=Goal]");
  const [goals, names] = await Promise.all([hasGoals ? goalsLike(search) : [], namesLike(search)]);
  const any = search === "*" || (!search && names.length) ? [ANY] : [];
  return [...[...goals, ...names].slice(0, MAX_SUGGESTIONS), ...any];
}

async function namesLike(search) {
  const page = await get("/api/schema/events", { search, pageSize: MAX_SUGGESTIONS });
  return (page?.data ?? []).map((record) => ({
    value: record.name,
    type: typeOf(record),
    badge: BADGES[typeOf(record)] ?? typeOf(record),
    note: `${formatNumber(record.count)}, ${formatTime(new Date(record.lastSeenAt), "ago")}`,
  }));
}

async function goalsLike(search) {
  const page = await get("/api/goals", { search, pageSize: MAX_SUGGESTIONS });
  return (page?.data ?? []).map(({ name, match }) => ({
    value: name,
    type: "Goal",
    badge: "Goal",
    note: match.value,
  }));
}

// nearlyUniqueLast: whether properties with almost a value for each event, such as IDs, come last.
async function propertiesLike({ type, value }, search, { nearlyUniqueLast = false } = {}) {
  const page = await get("/api/schema/properties", {
    kind: KINDS[type],
    event: KINDS[type] && !isAny({ type, value }) ? value : undefined,
    search,
    pageSize: MAX_PROPERTIES,
  });
  const found = (page?.data ?? []).map(({ property, count, types, distinctValues }) => ({
    value: property,
    badge: property.startsWith(TRAIT) ? "Trait" : undefined,
    note: `${types[0]?.type ?? ""} ${formatNumber(count)}`,
    isNearlyUnique: distinctValues >= MANY_VALUES || distinctValues > count / 2,
  }));
  const builtIn = found.filter((option) => !isOwn(option) && !option.badge);
  const traits = found.filter(({ badge }) => badge);
  const ordered = [...found.filter(isOwn), ...traits, ...builtIn];
  if (nearlyUniqueLast) ordered.sort((a, b) => a.isNearlyUnique - b.isNearlyUnique);
  return ordered.slice(0, 2 * MAX_SUGGESTIONS);
}

function firstTimeLike(search) {
  const names = [FIRST_TIME.value, FIRST_TIME.badge.toLowerCase()];
  return names.some((name) => name.includes(search.toLowerCase())) ? [FIRST_TIME] : [];
}

// Saved cohorts by their names. Their values are IDs after a prefix.
async function cohortsLike(typed, prefix = "") {
  const search = typed.startsWith(prefix || "coh_") ? "" : typed;
  const page = await get("/api/cohorts", { search, pageSize: MAX_SUGGESTIONS });
  return (page?.data ?? []).map(({ id, name }) => ({
    value: prefix + id,
    badge: COHORT.badge,
    note: name,
  }));
}

async function valuesLike(property, { type, value }, search) {
  if (!property) return [];
  if (property === COHORT.value) return cohortsLike(search);
  if (property === FIRST_TIME.value)
    return ["true", "false"].map((answer) => ({ value: answer, note: "" }));
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
