(() => {
  const parts = crypto.getRandomValues(new Uint32Array(4));
  const visitorId = (localStorage.penstockVisitor ||= Array.from(parts, (part) => part.toString(36)).join(""));
  const page = () => ({ url: location.href, referrer: document.referrer, title: document.title });
  const send = (item) => navigator.sendBeacon(
    "{{ base_url }}/api/track",
    JSON.stringify({ websiteId: "{{ website_id }}", visitorId, ...page(), ...item }),
  );
  window.penstock = { visitorId, event: (name, properties = {}) => send({ type: "event", name, properties }) };
  send({ type: "pageview" });
})();
