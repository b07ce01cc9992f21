// Opens the workspace once its invitation is accepted.
import { call } from "./api.js";

document.querySelector("#accept")?.addEventListener("form:done", (event) => {
  event.preventDefault();
  call("POST", "/api/auth/workspace", { workspaceId: event.detail.answer.workspace.id }).finally(
    () => location.assign("/"),
  );
});
