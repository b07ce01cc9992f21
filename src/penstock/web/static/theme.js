// Before the first paint: the theme that the reader selected. Runs in the head, so it is not a
// module.
(() => {
  let selected = null;
  try {
    selected = localStorage.getItem("theme");
  } catch {
    // storage is disabled: the system's theme applies
  }
  if (selected === "light" || selected === "dark")
    document.documentElement.dataset.theme = selected;
})();
