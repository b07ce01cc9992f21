// Fields of an app are there, and are sent, only while the kind is "mobile".
import { on } from "./listening.js";

const fields = document.querySelector("#app-fields");
const show = () => {
  const mobile = document.querySelector("[name=kind]:checked").value === "mobile";
  fields.hidden = !mobile;
  fields.disabled = !mobile;
};
on("change", "[name=kind]", show);
show();
