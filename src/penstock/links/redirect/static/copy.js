// "Get the app" first copies the link with its click token, if the browser allows it. Without
// scripts it is a plain link.
const button = document.querySelector("a[data-copies]");
if (button && navigator.clipboard) {
  document.querySelector("#copies").hidden = false;
  button.addEventListener("click", (event) => {
    event.preventDefault();
    const copied = navigator.clipboard.writeText(button.dataset.copies).catch(() => undefined);
    const patience = new Promise((resolve) => setTimeout(resolve, 500));
    Promise.race([copied, patience]).then(() => location.assign(button.href));
  });
}
