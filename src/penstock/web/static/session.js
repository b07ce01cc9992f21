// When the session has ended: a dialog asks for the password over the page as it is, then what was refused is done again.

let again = null;
let told = false;

// insist: ask also where the dialog was closed before; what polls does not.
export function sessionEnded(retry, { insist = true } = {}) {
  const dialog = document.querySelector("#session-ended");
  if (dialog.open || (told && !insist)) return;
  again = retry;
  told = true;
  dialog.showModal();
  dialog.querySelector("[name=password]").focus();
}

document.addEventListener("form:done", (event) => {
  const form = event.target;
  if (!form.matches("[data-log-in-again]")) return;
  const { user, workspace } = event.detail.answer;
  const { account, workspace: shown } = document.body.dataset;
  form.querySelector("[name=password]").value = "";
  if (user.id !== account || workspace.id !== shown) location.reload(); // this page is another's
  told = false;
  again?.();
  again = null;
});
