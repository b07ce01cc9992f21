// on("click", "[data-copy]", (element, event) => ...): one listener at the document for all elements there are and will be.
export function on(type, selector, handle, options) {
  document.addEventListener(type, (event) => {
    const element = event.target instanceof Element ? event.target.closest(selector) : null;
    if (element) handle(element, event);
  }, options);
}
