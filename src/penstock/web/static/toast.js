// Shows a short message that screen readers announce. A click closes it. tone: "" or "bad".
const DURATION_MS = 5000;

export function toast(text, tone = "") {
  const element = document.createElement("div");
  element.className = `toast ${tone}`;
  element.textContent = text;
  element.addEventListener("click", () => element.remove());
  document.querySelector(".toasts").append(element);
  setTimeout(() => element.remove(), tone === "bad" ? DURATION_MS * 2 : DURATION_MS);
}

// Shows a message on the next page.
export function toastLater(text) {
  sessionStorage.setItem("toast", text);
}

const waiting = sessionStorage.getItem("toast");
if (waiting) {
  sessionStorage.removeItem("toast");
  toast(waiting);
}
