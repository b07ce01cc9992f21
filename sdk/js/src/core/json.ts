/**
 * Converts values that pages pass to JSON. The values may be anything, and pages may change
 * prototypes.
 */
import type { Json, Properties } from "./queue";

const MAX_KEYS = 255;
const MAX_LEVELS = 4; // levels below a property
const MAX_BYTES = 8_192;
const MAX_CHARS = 60_000;
const INTEGER_TOO_LONG = /^-?\d{19,}$/;

/**
 * Returns JSON, even if the page added `toJSON` to prototypes, as old versions of Prototype.js do.
 */
export function toJson(
  value: unknown,
  replacer?: (key: string, value: unknown) => unknown,
): string {
  const changed: [{ toJSON?: unknown }, unknown][] = [];
  for (const { prototype } of [Object, Array, String, Number]) {
    const own = prototype as { toJSON?: unknown };
    if (Object.prototype.hasOwnProperty.call(own, "toJSON")) changed.push([own, own.toJSON]);
    delete own.toJSON;
  }
  try {
    return JSON.stringify(value, replacer);
  } finally {
    for (const [prototype, toJSON] of changed) prototype.toJSON = toJSON;
  }
}

/**
 * Returns properties without values that are not allowed in events. `drop` receives the names of
 * removed properties.
 */
export function plain(properties: unknown, drop: (name: string) => void): Properties {
  const result = Object.create(null) as Properties;
  let keys = 0;
  let chars = 0;
  const count = (key: string, value: unknown): unknown => {
    if ((keys += 1) > 2 * MAX_KEYS || /^(function|symbol)$/.test(typeof value)) throw key;
    return value;
  };
  let names: string[] = [];
  try {
    if (Array.isArray(properties) || Object(properties) !== properties) throw properties ?? {};
    names = Object.keys(properties as object);
  } catch {
    if (properties != null) drop("properties");
  }
  for (const name of names) {
    const before = [keys, chars] as const;
    try {
      const text = toJson((properties as Properties)[name], count);
      if (text === undefined) continue; // Treat the value as missing.
      const value = JSON.parse(text) as Json;
      chars += text.length;
      keys = before[0] + 1 + check(value, 0);
      if (name[0] === "$" || keys > MAX_KEYS || chars > MAX_CHARS) throw name;
      checkText(name);
      result[name] = value;
    } catch {
      [keys, chars] = before;
      drop(name);
    }
  }
  return result;
}

/** Returns the number of keys in a value. Throws for a value that Penstock would reject. */
function check(value: Json, level: number): number {
  if (typeof value === "string") checkText(value);
  if (typeof value === "number" && INTEGER_TOO_LONG.test(`${value}`)) throw value;
  if (!value || typeof value !== "object") return 0;
  if (level >= MAX_LEVELS) throw value;
  let keys = 0;
  for (const [key, item] of Object.entries(value)) {
    if (!Array.isArray(value)) keys += 1;
    checkText(key);
    keys += check(item!, level + 1);
  }
  return keys;
}

function checkText(text: string): void {
  const isLong = text.length > MAX_BYTES / 3 && new TextEncoder().encode(text).length > MAX_BYTES;
  if (isLong || /\0|\p{Surrogate}/u.test(text)) throw text;
}
