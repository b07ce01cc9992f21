// The subscription to the weekly digest: the reader's time zone by default, and chosen funnels.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function prepare(root) {
  for (const list of root.querySelectorAll("#timezones"))
    list.append(...Intl.supportedValuesOf("timeZone").map((name) => new Option(name, name)));
  for (const input of root.querySelectorAll("[data-own-zone]")) input.value = zone || input.value;
}

prepare(document);
document.addEventListener("htmx:load", ({ detail }) => {
  if (detail.elt.id === "digest") prepare(detail.elt);
});

document.addEventListener("change", ({ target }) => {
  if (target.name === "which")
    target.form.querySelector("#digest-funnels").hidden = target.value === "all";
});

document.addEventListener(
  "form:body",
  ({ target, detail }) => {
    if (target.id !== "digest-form") return;
    const boxes = [...target.querySelectorAll("[data-funnel]:checked")];
    const chosen = boxes.map((box) => box.dataset.funnel);
    detail.body.funnelIds = detail.body.which === "all" ? null : chosen;
    delete detail.body.which;
  },
  { capture: true },
);
