// Reports: sets the reader's time zone by default, and shows an error in parts without a response.
import { toast } from "./toast.js";

const EDGE_PX = 8;
const MAX_PICKED = 6;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const here = new URL(location.href);

if (zone && !here.searchParams.has("timezone")) {
  here.searchParams.set("timezone", zone);
  history.replaceState(history.state, "", here);
  for (const name of document.querySelectorAll(".zone-name")) name.textContent = zone;
  for (const input of document.querySelectorAll("#timezone")) input.value = zone;
}

// Parts of the first page do not have the time zone yet.
document.addEventListener("htmx:configRequest", ({ detail }) => {
  const parameters = new URL(detail.path || location.href, location.href).searchParams;
  if (zone && !parameters.has("timezone") && !detail.parameters.timezone)
    detail.parameters.timezone = new URL(location.href).searchParams.get("timezone");
});

for (const list of document.querySelectorAll("#timezones")) {
  list.append(...Intl.supportedValuesOf("timeZone").map((name) => new Option(name, name)));
}

for (const type of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(type, ({ detail }) => {
    if (detail.xhr?.status === 401 || !detail.target?.matches(".loading")) return;
    detail.target.querySelector(".waits")?.setAttribute("hidden", "");
    detail.target.querySelector(".unreached")?.removeAttribute("hidden");
    detail.target.removeAttribute("aria-busy");
  });
}

// A menu opens towards the side with room for it.
document.addEventListener(
  "toggle",
  ({ target: menu }) => {
    const body = menu.matches("details.menu[open]") && menu.querySelector(".menu-body");
    if (!body) return;
    body.classList.remove("leftwards");
    const room = document.documentElement.clientWidth - EDGE_PX;
    body.classList.toggle("leftwards", body.getBoundingClientRect().right > room);
  },
  { capture: true },
);

// Escape closes a menu, as does a click or focus outside.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (menu !== except) menu.open = false;
  }
}
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("focusin", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("keydown", (event) => {
  const open = document.querySelector("details.menu[open]");
  if (event.key !== "Escape" || event.defaultPrevented || !open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

// A bar leads to its units. The details of its step have the same as a link.
document.addEventListener("click", ({ target }) => {
  const bar = target.closest("[data-goes-to]");
  if (bar) location.assign(bar.dataset.goesTo);
});

// The boxes of the table of cohorts choose which have their own bars. The address has one cohort or
// null for each colour, so that the others keep theirs.
document.addEventListener("change", ({ target: box }) => {
  const table = box.closest("[data-picks]");
  if (!table || !box.closest(".pick")) return;
  const colours = pickedCohorts(table);
  const swatch = box.nextElementSibling;
  if (box.checked) {
    const free = colours.indexOf(null);
    if (free < 0) {
      box.checked = false;
      toast(`Only ${MAX_PICKED} cohorts can have bars. Untick another one first.`);
      return;
    }
    colours[free] = JSON.parse(box.value);
    swatch.classList.add(`series-${free + 1}`);
  } else {
    colours[colourOf(swatch) - 1] = null;
    swatch.className = "swatch";
  }
  const address = new URL(location.href);
  address.searchParams.set("picked", JSON.stringify(colours));
  history.replaceState(history.state, "", address);
  htmx.ajax("GET", address.pathname + address.search, {
    target: table.dataset.picks,
    swap: "outerHTML",
  });
});

function colourOf(swatch) {
  return Number(swatch.className.match(/series-(\d)/)?.[1] ?? 0);
}

// Cohorts on other pages of the table are only in the address.
function pickedCohorts(table) {
  const sent = new URL(location.href).searchParams.get("picked");
  const colours = Array(MAX_PICKED).fill(null);
  if (sent) return Object.assign(colours, JSON.parse(sent));
  for (const box of table.querySelectorAll(".pick input:checked"))
    colours[colourOf(box.nextElementSibling) - 1] = JSON.parse(box.value);
  return colours;
}
