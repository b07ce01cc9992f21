// The form for a webhook: the time of warnings has a field only while they are sent.
const form = document.querySelector("#webhook-form");
const box = form.querySelector("[value=expiring]");

function showTime() {
  form.querySelector("#expiring-time").hidden = !box.checked;
}

showTime();
box.addEventListener("change", showTime);
form.addEventListener("form:body", ({ detail: { body } }) => {
  if (!box.checked) body.expiringBeforeSeconds = null;
});
