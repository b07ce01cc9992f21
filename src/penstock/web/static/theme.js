// Before the first paint: the colours that the reader chose, if they are not the system's. Runs in the head, so it is no module.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // storage is switched off: the system's colours hold
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
