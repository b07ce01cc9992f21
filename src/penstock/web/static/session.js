// When the session has ended: a dialog asks for the password (and code) on the open page, then
// repeats the request.

let retryRequest = null;
let wasShown = false;

// Whether a response means that nobody is logged in. A website that this workspace does not have is
// also a 401.
export function needsLogIn(status, problem) {
  return status === 401 && problem?.code !== "website_not_owned";
}

// insist: show the dialog again after the reader closed it; polling does not.
export function sessionEnded(retry, { insist = true } = {}) {
  const dialog = document.querySelector("#session-ended");
  if (dialog.open || (wasShown && !insist)) return;
  retryRequest = retry;
  wasShown = true;
  dialog.showModal();
  dialog.querySelector("[name=password]").focus();
}

document.addEventListener("form:done", (event) => {
  const form = event.target;
  if (!form.matches("[data-log-in-again]")) return;
  const { user, workspace } = event.detail.answer;
  const { account, workspace: pageWorkspace } = document.body.dataset;
  document.querySelector("#again-password").value = "";
  // Of another account or workspace: this page is not theirs.
  if (user.id !== account || workspace.id !== pageWorkspace) location.reload();
  wasShown = false;
  retryRequest?.();
  retryRequest = null;
});
