// Applies the reader's theme before the first paint. It runs in the head, so it is not a module.
(() => {
  let selected = null;
  try {
    selected = localStorage.getItem("theme");
  } catch {
    // Storage is disabled: the system's theme applies.
  }
  if (selected === "light" || selected === "dark")
    document.documentElement.dataset.theme = selected;
})();
