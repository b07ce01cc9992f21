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
