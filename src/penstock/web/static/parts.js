// Parts of pages that htmx loads, and their errors.
import { sessionEnded } from "./session.js";
import { toast } from "./toast.js";

// Reloads a part of this page. selector: selects the element, here and in the response.
export function loadPart(selector) {
  return htmx.ajax("GET", location.pathname + location.search, {
    target: selector,
    select: selector,
    swap: "outerHTML",
  });
}

// Details with an ID stay as open as they were when their part is loaded again, and their summary
// keeps the focus.
const wasOpen = new Map();
let focused = null; // the ID of the details whose summary has the focus

document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  for (const { id, open } of target.querySelectorAll("details[id]")) wasOpen.set(id, open);
  focused = target.querySelector("details[id] > summary:focus")?.parentElement.id ?? null;
});
document.addEventListener("htmx:afterSwap", ({ target }) => {
  for (const details of target.querySelectorAll("details[id]")) {
    if (!wasOpen.has(details.id)) continue;
    details.open = wasOpen.get(details.id);
    wasOpen.delete(details.id);
    if (details.id === focused) details.querySelector("summary").focus({ preventScroll: true });
  }
});

// A clicked tab is marked at once, and its panel says that it loads. Without a response, the tab
// before it is marked again.
const loading = Object.assign(document.createElement("p"), { className: "pad soft" });
loading.setAttribute("role", "status");
let tabBefore = null;

function mark(tab) {
  for (const each of tab.parentElement.children) each.removeAttribute("aria-current");
  tab.setAttribute("aria-current", "page");
}

document.addEventListener("htmx:beforeRequest", ({ detail: { elt } }) => {
  if (!elt.matches(".tabs a")) return;
  if (!loading.isConnected) tabBefore = elt.parentElement.querySelector("[aria-current]");
  mark(elt);
  loading.textContent = `Loading “${elt.textContent.trim()}”…`;
  elt.parentElement.after(loading);
});
for (const type of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(type, ({ detail: { elt } }) => {
    if (!elt.matches(".tabs a")) return;
    loading.remove();
    if (tabBefore) mark(tabBefore);
  });
}

document.addEventListener("htmx:responseError", (event) => {
  const { xhr, elt, requestConfig } = event.detail;
  if (xhr.status === 401) {
    const polls = elt.hasAttribute("data-polls");
    const retry = () =>
      htmx.ajax(requestConfig.verb, requestConfig.path, {
        source: elt,
        target: requestConfig.target,
      });
    sessionEnded(polls ? () => {} : retry, { insist: !polls });
    return;
  }
  toast("This part of the page could not be loaded. Try again.", "bad");
});

for (const type of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(type, (event) => {
    if (!event.detail.elt.hasAttribute("data-polls"))
      toast("The server cannot be reached. Check the connection and try again.", "bad");
  });
}
