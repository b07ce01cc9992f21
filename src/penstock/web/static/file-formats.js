// Guesses the format of an import from the name and the first bytes of its file.
// Enough for a first line with hundreds of properties.
const HEAD_BYTES = 65_536;
const SCHEMA_BYTES = 262_144;
const GZIP = [0x1f, 0x8b];
const ZIP = [0x50, 0x4b, 0x03, 0x04];
// Beginnings of files that only the server reads: Zstandard, ZIP and UTF-16.
const UNREADABLE_HERE = [[0x28, 0xb5, 0x2f, 0xfd], ZIP, [0xff, 0xfe], [0xfe, 0xff]];
const PARQUET = [0x50, 0x41, 0x52, 0x31];
const PARQUET_COLUMNS = {
  posthog: ["uuid", "event", "distinct_id", "properties", "timestamp"],
  ga4: ["event_name", "event_timestamp", "event_params", "user_pseudo_id"],
};
const SEGMENT_CALLS = ["track", "page", "screen", "identify", "group", "alias"];

const startsWith = (bytes, magic) => magic.every((byte, at) => bytes[at] === byte);

// Returns the text at the start of a file, without gzip and BOM; null if the browser cannot read
// it.
export async function headOf(file) {
  let bytes = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  if (startsWith(bytes, GZIP)) bytes = await inflate(bytes);
  if (!bytes || UNREADABLE_HERE.some((magic) => startsWith(bytes, magic))) return null;
  return new TextDecoder()
    .decode(bytes)
    .replace(/^\uFEFF/, "")
    .trimStart();
}

// The file is cut, so the stream ends with an error after the bytes that it could read.
async function inflate(bytes) {
  if (!("DecompressionStream" in window)) return null;
  const reader = new Blob([bytes])
    .stream()
    .pipeThrough(new DecompressionStream("gzip"))
    .getReader();
  try {
    const { value } = await reader.read();
    return value ?? null;
  } catch {
    return null;
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Returns the name of the format that a file seems to have, or undefined. formats: the formats by
// name, each with the endings of its files. chosen: the format that is selected now.
export async function guessFormat(file, formats, chosen) {
  const fits = (format) =>
    formats[format].endings.some((ending) => file.name.toLowerCase().endsWith(ending));
  const byName = [chosen, ...Object.keys(formats)].find(fits);
  const bytes = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  if (startsWith(bytes, ZIP)) return byName ?? "amplitude";
  if (startsWith(bytes, PARQUET)) return parquetFormat(file);
  const start = await headOf(file);
  const byContent = start && formatOf(start);
  return byContent && byContent in formats ? byContent : byName;
}

// Returns the format of a Parquet file by the names of its columns. They are at the start of its
// last part, whose size precedes the last four bytes. A byte with the length precedes each name.
async function parquetFormat(file) {
  const tail = new DataView(await file.slice(-8).arrayBuffer());
  if (tail.byteLength < 8) return "parquet";
  const start = file.size - 8 - tail.getUint32(0, true);
  const schema = await file.slice(start, start + SCHEMA_BYTES).arrayBuffer();
  const text = new TextDecoder("latin1").decode(schema);
  const isNamed = (name) => text.includes(`\x18${String.fromCharCode(name.length)}${name}`);
  const products = Object.keys(PARQUET_COLUMNS);
  return products.find((product) => PARQUET_COLUMNS[product].every(isNamed)) ?? "parquet";
}

function formatOf(start) {
  const [first] = start.split("\n", 1);
  if (!first.startsWith("{")) return tableFormat(first);
  let line = {};
  try {
    line = JSON.parse(first);
  } catch {
    return undefined; // The line is longer than the bytes that were read, or no JSON.
  }
  if (typeof line.event_type === "string") return "amplitude";
  if ("event_name" in line && "event_timestamp" in line) return "ga4";
  if (typeof line.properties?.distinct_id === "string" && "time" in line.properties)
    return "mixpanel";
  if ("event" in line && "distinct_id" in line) return "posthog";
  const isCall = "messageId" in line || "anonymousId" in line || "originalTimestamp" in line;
  if (SEGMENT_CALLS.includes(line.type) && isCall) return "segment";
  return "timestamp" in line && "type" in line ? "ndjson" : undefined;
}

function tableFormat(first) {
  const columns = first.split(/[,;\t|]/).map((column) => column.trim().replace(/^"|"$/g, ""));
  if (columns.length < 2) return undefined;
  const isPostHog = ["event", "distinct_id", "timestamp"].every((each) => columns.includes(each));
  return isPostHog ? "posthog" : "csv";
}
