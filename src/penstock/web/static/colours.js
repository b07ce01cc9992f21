// The switch of colours: system, light or dark. `theme` is told at the document when they change, for what is drawn on a canvas.
import { on } from "./listening.js";

const root = document.documentElement;

function show() {
  const chosen = root.dataset.theme ?? "system";
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === chosen));
  }
}

on("click", "[data-theme-choice]", (button) => {
  const chosen = button.dataset.themeChoice;
  if (chosen === "system") delete root.dataset.theme;
  else root.dataset.theme = chosen;
  try {
    localStorage.setItem("theme", chosen);
  } catch {
    // storage is switched off: it holds for this page
  }
  show();
  document.dispatchEvent(new CustomEvent("theme"));
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("theme")));
show();
