// The theme switch: system, light or dark. Dispatches `theme` at the document, for charts.
import { on } from "./delegation.js";

const root = document.documentElement;

function show() {
  const selected = root.dataset.theme ?? "system";
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === selected));
  }
}

on("click", "[data-theme-choice]", (button) => {
  const selected = button.dataset.themeChoice;
  if (selected === "system") delete root.dataset.theme;
  else root.dataset.theme = selected;
  try {
    localStorage.setItem("theme", selected);
  } catch {
    // Storage is disabled: the choice applies to this page only.
  }
  show();
  document.dispatchEvent(new CustomEvent("theme"));
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.dispatchEvent(new CustomEvent("theme")),
);
show();
