// What is pressed before the modules of a page are here is pressed again once they are, so that a slow line loses nothing and no
// form leaves the page. Runs in the head, so it is no module.
(() => {
  const pressed = new Set();
  const keep = (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    pressed.add(button);
  };
  addEventListener("click", keep, true);
  addEventListener("DOMContentLoaded", () => {
    removeEventListener("click", keep, true);
    for (const button of pressed) button.click();
  });
})();
