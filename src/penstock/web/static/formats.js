// <time> and <data> in the reader's own spelling and time zone. What the server wrote stays for readers without modules.
const locale = navigator.languages?.length ? navigator.languages : undefined;

const SPELLINGS = {
  date: { dateStyle: "medium" },
  day: { day: "numeric", month: "short" },
  time: { timeStyle: "medium" },
  datetime: { dateStyle: "medium", timeStyle: "short" },
  full: { dateStyle: "full", timeStyle: "long" },
};
const made = new Map();
const numbers = {
  number: new Intl.NumberFormat(locale, { maximumFractionDigits: 2 }),
  exact: new Intl.NumberFormat(locale, { maximumFractionDigits: 4 }),
  percent: new Intl.NumberFormat(locale, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 }),
};
const ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });

const SPANS = [["year", 31_557_600], ["month", 2_629_800], ["week", 604_800], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
const LENGTHS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
const SIZES = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

function agoOf(date) {
  const seconds = (date.getTime() - Date.now()) / 1000;
  const [unit, size] = SPANS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return ago.format(Math.round(seconds / size), unit);
}

// 93784 as "1 day, 2 hr": the two largest units.
function durationOf(seconds) {
  const at = LENGTHS.findIndex(([, length]) => seconds >= length);
  if (at < 0) return unitOf("second", seconds, 2);
  const [unit, length] = LENGTHS[at];
  const whole = at === LENGTHS.length - 1 ? seconds : Math.floor(seconds / length);
  const next = LENGTHS[at + 1];
  const rest = next ? Math.floor((seconds % length) / next[1]) : 0;
  return rest ? `${unitOf(unit, whole, 0)} ${unitOf(next[0], rest, 0)}` : unitOf(unit, whole, at === LENGTHS.length - 1 ? 1 : 0);
}

function bytesOf(bytes) {
  const power = Math.min(Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1024)), SIZES.length - 1);
  return unitOf(SIZES[power], bytes / 1024 ** power, 1);
}

function unitOf(unit, value, digits) {
  return new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: digits }).format(value);
}

// zone: a time zone by its IANA name; the reader's own when it is left out.
export function formatTime(date, style = "datetime", zone = undefined) {
  if (style === "ago") return agoOf(date);
  if (style === "recent") return formatTime(date, date.toDateString() === new Date().toDateString() ? "time" : "datetime", zone);
  const key = `${style} ${zone}`;
  if (!made.has(key)) made.set(key, new Intl.DateTimeFormat(locale, { ...(SPELLINGS[style] ?? SPELLINGS.datetime), timeZone: zone }));
  return made.get(key).format(date);
}

export function formatNumber(value, style = "number") {
  if (style === "duration") return durationOf(value);
  if (style === "bytes") return bytesOf(value);
  return (numbers[style] ?? numbers.number).format(value);
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
document.addEventListener("htmx:load", (event) => formatAll(event.detail.elt.parentElement ?? document));
setInterval(() => formatAll(), 60_000); // "2 minutes ago" grows old
