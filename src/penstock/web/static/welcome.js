// The first run: the new API key goes into the curl line, and is nowhere else.
document.querySelector("#make-key").addEventListener("form:done", (event) => {
  const line = document.querySelector("#curl");
  line.textContent = line.textContent.replace("API_KEY", event.detail.answer.key);
  document.querySelector("#key-made").hidden = false;
  event.target.hidden = true;
  event.preventDefault();
  line.parentElement.focus();
});
