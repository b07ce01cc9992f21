// A sentence in the corner, read out by screen readers. tone: "" or "bad".
const LASTS_MS = 5000;

export function toast(text, tone = "") {
  const element = document.createElement("div");
  element.className = `toast ${tone}`;
  element.textContent = text;
  document.querySelector(".toasts").append(element);
  setTimeout(() => element.remove(), tone === "bad" ? LASTS_MS * 2 : LASTS_MS);
}

// To be said on the page that comes next.
export function toastLater(text) {
  sessionStorage.setItem("toast", text);
}

const waiting = sessionStorage.getItem("toast");
if (waiting) {
  sessionStorage.removeItem("toast");
  toast(waiting);
}
