// Turns a form's inputs into a request body. An input's name is the path of its value, such as
// steps[2].value.

export function collect(form) {
  const body = {};
  const headers = {};
  for (const input of form.elements) {
    if (!input.name || input.disabled || (input.type === "radio" && !input.checked)) continue;
    if (input.dataset.header) {
      headers[input.dataset.header] = input.value;
      continue;
    }
    if (input.dataset.as === "item") {
      const items = (body[input.name] ??= []);
      if (input.checked) items.push(input.value);
      continue;
    }
    const value = valueOf(input, input.dataset.empty ?? form.dataset.empty);
    if (value !== undefined) put(body, input.name, value);
  }
  return { body, headers };
}

function valueOf(input, empty) {
  if (input.type === "checkbox")
    return !input.checked && input.dataset.empty === "omit" ? undefined : input.checked;
  if (input.dataset.as === "list")
    return input.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  if (input.value === "" && !input.required) return empty === "null" ? null : undefined;
  if (input.dataset.as === "utc") return utcOf(input);
  if (input.dataset.as === "number") return numberOf(input.value);
  if (input.dataset.as === "mebibytes") return wholeNumberOf(input.value, 2 ** 20);
  if (input.dataset.as === "minutes") return wholeNumberOf(input.value, 60);
  if (input.dataset.as === "json") return jsonOf(input.value);
  return input.value;
}

// Returns the stored time unless the reader has changed it, because the field drops milliseconds.
function utcOf({ value, defaultValue, dataset }) {
  return Date.parse(`${value}Z`) === Date.parse(`${defaultValue}Z`) ? dataset.exact : `${value}Z`;
}

// Returns the number in a text. Invalid text stays unchanged, and the server says what is wrong
// with it.
function numberOf(text) {
  const number = Number(text);
  return text.trim() === "" || Number.isNaN(number) ? text : number;
}

// Whole bytes for a number of MB, or seconds for a number of minutes.
function wholeNumberOf(text, factor) {
  const number = numberOf(text);
  return typeof number === "number" ? Math.round(number * factor) : number;
}

function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function put(body, path, value) {
  const parts = path.match(/[^.[\]]+/g);
  let target = body;
  parts.forEach((part, index) => {
    if (index === parts.length - 1) target[part] = value;
    else target = target[part] ??= /^\d+$/.test(parts[index + 1]) ? [] : {};
  });
}
