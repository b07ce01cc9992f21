// A new API key is shown in a dialog, and taken out of the page when that is closed.
const shown = document.querySelector("#key-shown");
const place = document.querySelector("#key");

document.querySelector("#new-key-form").addEventListener("form:done", (event) => {
  place.textContent = event.detail.answer.key;
  shown.showModal();
});
shown.addEventListener("close", () => (place.textContent = ""));
