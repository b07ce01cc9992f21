// data-copy="text" copies the text; data-copy-from="#id" copies the text of an element;
// data-copy-address copies the address of the page.
import { on } from "./delegation.js";
import { toast } from "./toast.js";

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text); // browsers offer no clipboard outside https and localhost
  }
  toast("Copied.");
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

on("click", "[data-copy]", (button) => copy(button.dataset.copy));
on("click", "[data-copy-address]", () => copy(location.href));
on("click", "[data-copy-from]", (button) =>
  copy(document.querySelector(button.dataset.copyFrom).textContent),
);
