// Adds the reader's time zone to addresses of pages and parts that count days, so that the server
// knows it.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function addZone(root) {
  for (const link of root.querySelectorAll("a[data-in-zone]")) {
    const search = new URLSearchParams(link.search);
    search.set("timezone", zone); // Parts that load later pass the same links again.
    link.search = search;
  }
}

if (zone) {
  addZone(document);
  document.addEventListener("htmx:load", (event) =>
    addZone(event.detail.elt.parentElement ?? document),
  );
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.elt.matches("[data-in-zone]")) detail.parameters.timezone = zone;
  });
}
