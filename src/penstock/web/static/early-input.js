// Repeats clicks on buttons and changes of fields from before the modules were loaded. A slow
// connection then loses none, and no form leaves the page. It runs in the head, so it is not a
// module.
(() => {
  const clicked = new Set();
  const changed = { input: new Set(), change: new Set() };
  const postpone = (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    clicked.add(button);
  };
  const remember = (event) => changed[event.type].add(event.target);
  addEventListener("click", postpone, true);
  for (const type in changed) addEventListener(type, remember, true);
  addEventListener("DOMContentLoaded", () => {
    removeEventListener("click", postpone, true);
    for (const type in changed) {
      removeEventListener(type, remember, true);
      for (const field of changed[type]) field.dispatchEvent(new Event(type, { bubbles: true }));
    }
    for (const button of clicked) button.click();
  });
})();
