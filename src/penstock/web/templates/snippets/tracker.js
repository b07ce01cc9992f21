(() => {
  const send = (type, more = {}) => {
    const item = { websiteId: "{{ website_id }}", visitorId, type, url: location.href, referrer: document.referrer, title: document.title, ...more };
    navigator.sendBeacon("{{ base_url }}/api/track", JSON.stringify(item));
  };
  const random = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
  const visitorId = (localStorage.penstockVisitor ||= random());
  window.penstock = { visitorId, event: (name, properties = {}) => send("event", { name, properties }) };
  send("pageview");
})();
