// The first run: writes the new API key into the curl command only.
document.querySelector("#make-key").addEventListener("form:done", (event) => {
  const command = document.querySelector("#curl");
  command.textContent = command.textContent.replace("API_KEY", event.detail.answer.key);
  document.querySelector("#key-made").hidden = false;
  event.target.hidden = true;
  event.preventDefault();
  command.parentElement.focus();
});
