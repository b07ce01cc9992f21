// Managed links: the form of a new one, and the names of countries.
import { clearFaultAt, showAtField } from "./faults.js";

const form = document.querySelector("#link");
if (form) watch(form);

function watch(form) {
  const { name, slug, destinationPath, fallbackUrl } = form.elements;
  const pattern = new RegExp(`^(?:${slug.dataset.pattern})$`);
  let chosen = slug.value !== ""; // the slug follows the name until somebody types one

  // A hyphen at the end is on its way to something while one still types.
  const judge = (text) => (text && !pattern.test(text) ? showSlugFault() : clearFaultAt(form, "slug"));
  const showSlugFault = () => {
    clearFaultAt(form, "slug");
    showAtField(form, { field: "slug", message: slug.dataset.rule });
  };

  const follow = () => {
    if (chosen) return;
    slug.value = slugOf(name.value);
    judge(slug.value);
  };

  name.addEventListener("input", follow);
  slug.addEventListener("input", () => {
    chosen = slug.value !== "";
    judge(slug.value.replace(/(?<=.)-$/, ""));
  });
  slug.addEventListener("change", () => judge(slug.value));
  form.addEventListener("input", () => preview(form, pattern));
  // A slug that is taken is no fault of the input, but it stands at its field all the same.
  form.addEventListener("form:refused", ({ detail: { problem } }) => {
    if (problem.code === "slug_taken") problem.errors = [{ field: "slug", message: "This slug is taken, maybe by a disabled link. Choose another." }];
  });
  if (name.value !== name.defaultValue) follow(); // it was typed before this module was here
  if (slug.value || destinationPath.value || fallbackUrl.value) preview(form, pattern);
}

function slugOf(text) {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+/, "").slice(0, 64).replace(/-+$/, "");
}

function preview(form, pattern) {
  const { slug, destinationPath, fallbackUrl, utmSource, utmMedium, utmCampaign } = form.elements;
  const place = document.querySelector("#preview");
  const utm = { utm_source: utmSource.value, utm_medium: utmMedium.value, utm_campaign: utmCampaign.value };
  const query = Object.entries(utm).filter(([, value]) => value).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  const end = Object.assign(document.createElement("strong"), { textContent: pattern.test(slug.value) ? slug.value : "your-slug" });
  const rest = Object.assign(document.createElement("span"), { className: "soft", textContent: `?${["lk=…", ...query].join("&")}` });
  place.replaceChildren(place.dataset.base, end, rest);
  document.querySelector("#preview-destination").textContent = destinationPath.value || "/";
  document.querySelector("#preview-otherwise").textContent = fallbackUrl.value || "the app’s store";
}

const regions = new Intl.DisplayNames(navigator.languages, { type: "region", fallback: "code" });
const nameCountries = (root) => {
  for (const element of root.querySelectorAll("[data-country]")) element.textContent = regions.of(element.dataset.country);
};
nameCountries(document);
document.addEventListener("htmx:load", (event) => nameCountries(event.detail.elt.parentElement ?? document));
