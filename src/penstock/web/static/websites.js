// Shows and sends an app's fields only for the type "mobile".
import { on } from "./delegation.js";

const fields = document.querySelector("#app-fields");
const show = () => {
  const mobile = document.querySelector("[name=kind]:checked").value === "mobile";
  fields.hidden = !mobile;
  fields.disabled = !mobile;
};
on("change", "[name=kind]", show);
show();
