// After the session has ended, a dialog on the open page asks for the password (and code), and then
// the request is repeated.

import { openDialog } from "./dialogs.js";

let retryRequest = null;
let wasShown = false;

// Whether a response means that nobody is logged in. A website of another workspace is also a 401.
export function needsLogIn(status, problem) {
  return status === 401 && problem?.code !== "website_not_owned";
}

// insist: whether to show the dialog again after the reader closed it. Polling does not insist.
export function sessionEnded(retry, { insist = true } = {}) {
  const dialog = document.querySelector("#session-ended");
  if (dialog.open || (wasShown && !insist)) return;
  retryRequest = retry;
  wasShown = true;
  openDialog(dialog);
}

document.addEventListener("form:done", (event) => {
  const form = event.target;
  if (!form.matches("[data-log-in-again]")) return;
  const { user, workspace } = event.detail.answer;
  const { account, workspace: pageWorkspace } = document.body.dataset;
  document.querySelector("#again-password").value = "";
  // Reload for another account or workspace, to which this page does not belong.
  if (user.id !== account || workspace.id !== pageWorkspace) location.reload();
  wasShown = false;
  retryRequest?.();
  retryRequest = null;
});
