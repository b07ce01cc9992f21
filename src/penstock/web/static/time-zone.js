// Links to pages that count days have the reader's time zone in their address, so that the server knows it at once.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function addZone(root) {
  for (const link of root.querySelectorAll("a[data-in-zone]")) link.search = new URLSearchParams({ timezone: zone });
}

if (zone) {
  addZone(document);
  document.addEventListener("htmx:load", (event) => addZone(event.detail.elt.parentElement ?? document));
}
