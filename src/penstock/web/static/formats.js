// Formats <time> in the reader's time zone, and <data>. Like the pages, dates and numbers are in
// English: with the formats of the browser's language, a page could spell the same number in two
// ways.
export const LOCALE = "en-GB";

const TIME_STYLES = {
  date: { dateStyle: "medium" },
  day: { day: "numeric", month: "short" },
  time: { timeStyle: "medium" },
  datetime: { dateStyle: "medium", timeStyle: "short" },
  exact: {
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
  },
  full: { dateStyle: "full", timeStyle: "long" },
};
const ISO_TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;
const formatters = new Map();
const numbers = {
  number: new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 2 }),
  exact: new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 4 }),
  share: new Intl.NumberFormat(LOCALE, { style: "percent", maximumFractionDigits: 1 }),
  percent: new Intl.NumberFormat(LOCALE, {
    style: "percent",
    minimumFractionDigits: 1,
    maximumFractionDigits: 1,
  }),
};
const relativeTime = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });

const SPANS = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const DURATION_UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const BYTE_UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

function relativeTimeOf(date) {
  const seconds = (date.getTime() - Date.now()) / 1000;
  const [unit, size] = SPANS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return relativeTime.format(Math.round(seconds / size), unit);
}

// Formats a duration in its two largest units: 93784 becomes "1d 2h".
function durationOf(seconds) {
  const at = DURATION_UNITS.findIndex(([, length]) => seconds >= length);
  if (at < 0) return unitOf("second", seconds, 2);
  const [unit, length] = DURATION_UNITS[at];
  const whole = at === DURATION_UNITS.length - 1 ? seconds : Math.floor(seconds / length);
  const next = DURATION_UNITS[at + 1];
  const rest = next ? Math.floor((seconds % length) / next[1]) : 0;
  return rest
    ? `${unitOf(unit, whole, 0)} ${unitOf(next[0], rest, 0)}`
    : unitOf(unit, whole, at === DURATION_UNITS.length - 1 ? 1 : 0);
}

function bytesOf(bytes) {
  const power = Math.min(
    Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1024)),
    BYTE_UNITS.length - 1,
  );
  return unitOf(BYTE_UNITS[power], bytes / 1024 ** power, 1);
}

function unitOf(unit, value, digits) {
  // "1 byte", but "4m 10s"
  const unitDisplay = unit.endsWith("byte") ? (unit === "byte" ? "long" : "short") : "narrow";
  return new Intl.NumberFormat(LOCALE, {
    style: "unit",
    unit,
    unitDisplay,
    maximumFractionDigits: digits,
  }).format(value);
}

// zone: IANA name of a time zone; the reader's by default.
export function formatTime(date, style = "datetime", zone = undefined) {
  if (style === "ago") return relativeTimeOf(date);
  if (style === "recent")
    return formatTime(
      date,
      date.toDateString() === new Date().toDateString() ? "time" : "datetime",
      zone,
    );
  const key = `${style} ${zone}`;
  if (!formatters.has(key))
    formatters.set(
      key,
      new Intl.DateTimeFormat(LOCALE, {
        ...(TIME_STYLES[style] ?? TIME_STYLES.datetime),
        timeZone: zone,
      }),
    );
  return formatters.get(key).format(date);
}

// Formats the ISO times in a sentence from the API like the rest of the page.
export function formatTimesIn(text) {
  return text.replace(ISO_TIME, (at) => formatTime(new Date(at)));
}

export function formatNumber(value, style = "number") {
  if (style === "duration") return durationOf(value);
  if (style === "bytes") return bytesOf(value);
  return (numbers[style] ?? numbers.number).format(value).replace("-", "\u2212"); // a minus sign
}

export function formatAll(root = document) {
  for (const element of root.querySelectorAll("time[datetime][data-style]")) {
    const date = new Date(element.dateTime);
    element.textContent = formatTime(date, element.dataset.style, element.dataset.zone);
    element.title = formatTime(date, "full", element.dataset.zone);
  }
  for (const element of root.querySelectorAll("data[value][data-style]")) {
    element.textContent = formatNumber(Number(element.value), element.dataset.style);
  }
}

formatAll();
document.addEventListener("htmx:load", (event) =>
  formatAll(event.detail.elt.parentElement ?? document),
);
setInterval(() => formatAll(), 60_000); // updates "2 minutes ago"
