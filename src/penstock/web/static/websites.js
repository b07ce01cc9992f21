// Shows and sends an app's fields only for the type "mobile". A website is connected next, an app
// has its page with the checks of its links.
import { on } from "./delegation.js";

const fields = document.querySelector("#app-fields");
const show = () => {
  const mobile = document.querySelector("[name=kind]:checked").value === "mobile";
  fields.hidden = !mobile;
  fields.disabled = !mobile;
  fields.form.dataset.doneTo = mobile ? "/settings/websites/{id}" : "/welcome/{id}";
};
on("change", "[name=kind]", show);
show();
