// Repeats clicks on buttons from before the modules were loaded, so that a slow connection loses none
// and no form leaves the page. Runs in the head, so it is not a module.
(() => {
  const clicked = new Set();
  const postpone = (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    clicked.add(button);
  };
  addEventListener("click", postpone, true);
  addEventListener("DOMContentLoaded", () => {
    removeEventListener("click", postpone, true);
    for (const button of clicked) button.click();
  });
})();
