// A short message that screen readers announce; a click closes it. tone: "" or "bad".
const DURATION_MS = 5000;

export function toast(text, tone = "") {
  const element = document.createElement("div");
  element.className = `toast ${tone}`;
  element.textContent = text;
  element.addEventListener("click", () => element.remove());
  document.querySelector(".toasts").append(element);
  setTimeout(() => element.remove(), tone === "bad" ? DURATION_MS * 2 : DURATION_MS);
}

// For the next page.
export function toastLater(text) {
  sessionStorage.setItem("toast", text);
}

const waiting = sessionStorage.getItem("toast");
if (waiting) {
  sessionStorage.removeItem("toast");
  toast(waiting);
}
