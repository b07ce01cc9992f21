// Tabs that show one panel of a page, built by the ARIA practices: arrow keys move between tabs.
import { on } from "./delegation.js";

on("click", "[role=tab]", select);
on("keydown", "[role=tab]", (tab, event) => {
  const tabs = [...tab.parentElement.children];
  const at = tabs.indexOf(tab);
  const next = {
    ArrowRight: tabs[(at + 1) % tabs.length],
    ArrowLeft: tabs.at(at - 1),
    Home: tabs[0],
    End: tabs.at(-1),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  select(next);
  next.focus();
});

function select(chosen) {
  for (const tab of chosen.parentElement.children) {
    const isChosen = tab === chosen;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isChosen;
  }
}
