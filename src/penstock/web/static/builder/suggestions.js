// What the inputs of a builder suggest: names, properties and values that were seen, and goals.
import { call, Unreachable } from "../api.js";
import { formatNumber } from "../formats.js";
import { chosenIn, part } from "./matches.js";

const KINDS = { Pageview: "pageview", "Screen view": "screenview", Event: "event", Transaction: "transaction" };
const SHOWN = 12;

export async function suggest(input) {
  const match = input.closest("[data-match]");
  const chosen = match ? chosenIn(match) : {};
  const typed = input.value;
  switch (input.dataset.suggests) {
    case "name":
      return chosen.type === "Goal" ? goalsLike(typed) : namesLike(chosen.type, typed);
    case "value":
      return valuesLike(part(input.closest(".filter"), "property").querySelector("input").value, chosen, typed);
    case "property":
      return propertiesLike(chosen, typed);
    default:
      return (await propertiesLike(chosen, typed)).filter(({ value }) => !value.startsWith("$"));
  }
}

// Whether anything of this name was seen; true also where that cannot be said.
export async function isKnown({ type, value }) {
  if (!KINDS[type] || !value || (type === "Pageview" && !/^\/[^*?#]*$/.test(value))) return true;
  const path = type === "Pageview" && value.length > 1 ? value.replace(/\/+$/, "") : value;
  const found = await ask("/api/schema/events", { kind: KINDS[type], search: path, pageSize: 100 });
  return !found || found.data.some(({ name }) => name === path) || found.total > found.data.length;
}

async function namesLike(type, search) {
  const found = await ask("/api/schema/events", { kind: KINDS[type], search, pageSize: SHOWN });
  return (found?.data ?? []).map(({ name, count }) => ({ value: name, note: formatNumber(count) }));
}

async function goalsLike(search) {
  const found = await ask("/api/goals", { search, pageSize: SHOWN });
  return (found?.data ?? []).map(({ name, match }) => ({ value: name, note: match.type }));
}

async function propertiesLike({ type, value }, search) {
  const found = await ask("/api/schema/properties", { kind: KINDS[type], event: KINDS[type] && value, search, pageSize: SHOWN });
  return (found?.data ?? []).map(({ property, count, types }) => ({ value: property, note: `${types[0]?.type ?? ""} ${formatNumber(count)}` }));
}

async function valuesLike(property, { type, value }, search) {
  if (!property) return [];
  const found = await ask("/api/schema/values", { property, kind: KINDS[type], event: KINDS[type] && value, search, pageSize: SHOWN });
  return (found?.data ?? []).map((one) => ({ value: String(one.value), note: formatNumber(one.count) }));
}

// Suggestions are a help: where there is no answer, there is none.
async function ask(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  try {
    return (await call("GET", `${path}?${new URLSearchParams(given)}`)).body;
  } catch (error) {
    if (error instanceof Unreachable) return undefined;
    throw error;
  }
}
