// Managed links: the form for a new link, and country names.
import { clearFaultAt, showAtField } from "./faults.js";
import { LOCALE } from "./formats.js";

const form = document.querySelector("#link");
if (form) watch(form);

function watch(form) {
  const { name, slug, destinationPath, fallbackUrl } = form.elements;
  const pattern = new RegExp(`^(?:${slug.dataset.pattern})$`);
  let typed = slug.value !== ""; // the slug follows the name until the reader types a slug

  // Allow a hyphen at the end while the reader is typing.
  const check = (text) =>
    text && !pattern.test(text) ? showSlugFault() : clearFaultAt(form, "slug");
  const showSlugFault = () => {
    clearFaultAt(form, "slug");
    showAtField(form, { field: "slug", message: slug.dataset.rule });
  };

  const follow = () => {
    if (typed) return;
    slug.value = slugOf(name.value);
    check(slug.value);
  };

  name.addEventListener("input", follow);
  slug.addEventListener("input", () => {
    typed = slug.value !== "";
    check(slug.value.replace(/(?<=.)-$/, ""));
  });
  slug.addEventListener("change", () => check(slug.value));
  form.addEventListener("input", () => preview(form, pattern));
  if (name.value !== name.defaultValue) follow(); // typed before this module was loaded
  if (slug.value || destinationPath.value || fallbackUrl.value) preview(form, pattern);
}

function slugOf(text) {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, 64)
    .replace(/-+$/, "");
}

function preview(form, pattern) {
  const { slug, destinationPath, fallbackUrl, utmSource, utmMedium, utmCampaign } = form.elements;
  const output = document.querySelector("#preview");
  const utm = {
    utm_source: utmSource.value,
    utm_medium: utmMedium.value,
    utm_campaign: utmCampaign.value,
  };
  const query = Object.entries(utm)
    .filter(([, value]) => value)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  const end = Object.assign(document.createElement("strong"), {
    textContent: pattern.test(slug.value) ? slug.value : "your-slug",
  });
  const rest = Object.assign(document.createElement("span"), {
    className: "soft",
    textContent: `?${["lk=…", ...query].join("&")}`,
  });
  output.replaceChildren(output.dataset.base, end, rest);
  document.querySelector("#preview-destination").textContent = destinationPath.value || "/";
  document.querySelector("#preview-otherwise").textContent =
    fallbackUrl.value || "the app’s store page";
}

const regions = new Intl.DisplayNames(LOCALE, { type: "region", fallback: "code" });
const nameCountries = (root) => {
  for (const element of root.querySelectorAll("[data-country]"))
    element.textContent = regions.of(element.dataset.country);
};
nameCountries(document);
document.addEventListener("htmx:load", (event) =>
  nameCountries(event.detail.elt.parentElement ?? document),
);
