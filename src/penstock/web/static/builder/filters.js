// The value of a filter: inputs for its operator, and a hidden input with the text for the API.
//
// The hidden input keeps the saved text until an input changes.

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

const text = {
  hint: "",
  inputs: (value) => [input("Value", value, { suggests: "value", placeholder: "Value" })],
  read: ([field]) => field.value,
};
const number = {
  hint: "",
  inputs: (value) => [decimal("Number", value, "19.99")],
  read: ([field]) => field.value.trim(),
};
const none = { hint: "", inputs: () => [], read: () => "" };
const regex = {
  hint: "RE2 syntax, such as ^pro(_|$). Matches anywhere; use ^ and $ for the start and the end.",
  inputs: (value) => [input("Regular expression", value, { placeholder: "^pro" }, "mono")],
  read: text.read,
};
const list = {
  hint: "One value per line, up to 100.",
  inputs: (value) => [area("Values, one per line", listed(value).map(plain).join("\n"))],
  read: ([field]) => JSON.stringify(field.value.split("\n").filter((line) => line !== "")),
};
// Returns the number as JSON, as it was typed. Anything else becomes a text, which the server
// rejects.
function numberOrText(value) {
  const trimmed = value.trim();
  return NUMBER.test(trimmed) ? trimmed : JSON.stringify(value);
}

const range = {
  hint: "",
  inputs: (value) => {
    const [low, high] = listed(value).map(plain);
    return [decimal("From", low, "From"), decimal("To (inclusive)", high, "To")];
  },
  read: (ends) => `[${ends.map(({ value }) => numberOrText(value)).join(", ")}]`,
};
const time = {
  hint: "In UTC. Without a time, the day starts at 00:00.",
  inputs: (value) => {
    const [day, clock] = dateAndTimeOf(value);
    return [
      input("Date", day, { type: "date" }),
      input("Time (UTC)", clock, { type: "time", step: "1" }),
    ];
  },
  read: ([day, clock]) => (clock.value ? `${day.value}T${clock.value}Z` : day.value),
};

const KINDS = { text, regex, list, number, range, time, none };

// The selected option says what its operator needs; no option is selected for an unknown operator.
const kindOf = (filter) =>
  KINDS[filter.querySelector("[data-operator]").selectedOptions[0]?.dataset.input ?? "text"];
const hiddenOf = (filter) => filter.querySelector("[data-named]");
const inputsOf = (filter) => [...filter.querySelectorAll(".filter-inputs > *")];

export function fillFilterValue(filter, value) {
  const kind = kindOf(filter);
  filter.querySelector(".filter-inputs").replaceChildren(...kind.inputs(value));
  filter.classList.toggle("bare", kind === none);
  const [field, hint] = [
    filter.querySelector(".filter-value"),
    filter.querySelector(".filter-value > .hint"),
  ];
  hint.textContent = kind.hint;
  hint.hidden = !kind.hint;
  field.querySelector(".fault").hidden = true;
  hiddenOf(filter).value = value;
  hiddenOf(filter).disabled = kind === none;
}

// A picked property may come with the operator that fits it.
export function propertyPicked(filter, { operator }) {
  if (!operator) return;
  filter.querySelector("[data-operator]").value = operator;
  operatorChanged(filter);
}

// A new operator keeps the typed value if it has the same kind of input.
export function operatorChanged(filter) {
  const typed = inputsOf(filter);
  const value =
    typed.length === 1 && typed[0].type !== "date" && [text, number, regex].includes(kindOf(filter))
      ? typed[0].value
      : "";
  fillFilterValue(filter, value);
  readFilterValue(filter);
}

export function readFilterValue(filter) {
  hiddenOf(filter).value = kindOf(filter).read(inputsOf(filter));
}

// A filter in words, such as "plan is one of pro, plus".
export function filterInWords(filter) {
  const value = hiddenOf(filter).value;
  const kind = kindOf(filter);
  const shown = kind === list || kind === range ? listed(value).map(plain).join(", ") : value;
  const property = filter.querySelector('[data-part="property"] input').value;
  const operator = filter.querySelector("[data-operator]").selectedOptions[0]?.textContent ?? "";
  return `${property} ${operator} ${kind === none ? "" : shown}`.trim();
}

function input(label, value = "", { suggests, ...attributes } = {}, look = "") {
  const element = Object.assign(document.createElement("input"), {
    className: `input ${look}`,
    autocomplete: "off",
    ...attributes,
    value,
  });
  element.setAttribute("aria-label", label);
  element.setAttribute("autocapitalize", "off");
  element.spellcheck = false;
  if (suggests) element.dataset.suggests = suggests;
  return element;
}

function decimal(label, value, placeholder) {
  return input(label, value, { inputMode: "decimal", placeholder });
}

function area(label, value) {
  const element = Object.assign(document.createElement("textarea"), {
    className: "input",
    rows: 3,
    value,
    spellcheck: false,
  });
  element.setAttribute("aria-label", label);
  return element;
}

function listed(value) {
  try {
    const items = JSON.parse(value);
    return Array.isArray(items) ? items : [];
  } catch {
    return [];
  }
}

const plain = (item) => (typeof item === "string" ? item : JSON.stringify(item));

function dateAndTimeOf(value) {
  if (/^\d{4}-\d\d-\d\d$/.test(value)) return [value, ""];
  const zoned = /^-?\d+$/.test(value)
    ? Number(value)
    : /(Z|[+-]\d\d:?\d\d)$/.test(value)
      ? value
      : `${value.replace(" ", "T")}Z`;
  const date = value === "" ? new Date(NaN) : new Date(zoned);
  return Number.isNaN(date.getTime())
    ? ["", ""]
    : [date.toISOString().slice(0, 10), date.toISOString().slice(11, 19)];
}
