// on("click", "[data-copy]", (element, event) => ...) listens at the document, for present and
// future elements.
export function on(type, selector, handle, options) {
  document.addEventListener(
    type,
    (event) => {
      const element = event.target instanceof Element ? event.target.closest(selector) : null;
      if (element) handle(element, event);
    },
    options,
  );
}
