// The form for an alert: shows the fields of the chosen kind, and builds the channels of the
// request.
import { showOnce } from "./show-once.js";

const form = document.querySelector("#alert-form");
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const isNew = form.dataset.api === "POST";

if (isNew && zone) for (const input of form.querySelectorAll("[data-zone]")) input.value = zone;

function show(part, isShown) {
  part.hidden = !isShown;
  for (const input of part.querySelectorAll("input, select")) input.disabled = !isShown;
}

function showFields() {
  const kind = form.elements["condition.kind"].value;
  for (const group of form.querySelectorAll("[data-kind]"))
    show(group, group.dataset.kind === kind);
  const when = form.elements["condition.when"].value;
  for (const part of form.querySelectorAll("[data-when]"))
    show(part, kind === "rate" && part.dataset.when.split(" ").includes(when));
}

showFields();
form.addEventListener("change", ({ target }) => {
  if (["condition.kind", "condition.when"].includes(target.name)) showFields();
});

form.addEventListener("form:body", ({ detail: { body } }) => {
  const level = body.condition.level;
  if (typeof level === "number") body.condition.level = Math.round(level * 100) / 10000;
  body.channels = [...form.querySelectorAll("[data-user]:checked, [data-channel]:checked")].map(
    ({ dataset }) =>
      dataset.channel ? { id: dataset.channel } : { kind: "email", userId: dataset.user },
  );
  for (const kind of ["chat", "webhook"]) {
    // An error about this channel belongs to its own input, not to the list.
    const field = form.elements[kind].closest("[data-field]");
    field.dataset.field = body[kind] ? `channels[${body.channels.length}]` : kind;
    if (body[kind]) body.channels.push({ kind, url: body[kind] });
    delete body[kind];
  }
  if (!body.quietHours.from && !body.quietHours.to) body.quietHours = null;
  // A new condition would start the history again.
  if (!isNew && isSame(body.condition, JSON.parse(form.dataset.condition))) delete body.condition;
});

function isSame(one, other) {
  const sorted = (value) =>
    JSON.stringify(value, (_, each) =>
      each?.constructor === Object ? Object.fromEntries(Object.entries(each).sort()) : each,
    );
  return sorted(one) === sorted(other);
}

form.addEventListener("form:done", (event) => {
  const secrets = event.detail.answer.channels.flatMap(({ secret }) => secret ?? []);
  if (secrets.length) showOnce(form, event, secrets);
});
