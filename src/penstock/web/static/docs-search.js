// Searches the API reference: shows only the operations and schemas that contain every typed word.
const [field, status] = ["#find", "#found"].map((id) => document.querySelector(id));
const articles = [...document.querySelectorAll("main article")].map((element) => ({
  element,
  text: element.textContent.toLowerCase(),
  link: document.querySelector(`nav a[href="#${CSS.escape(element.id)}"]`)?.closest("li"),
}));

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const { element, text, link } of articles) {
    const matches = words.every((word) => text.includes(word));
    element.hidden = !matches;
    if (link) link.hidden = !matches;
    found += matches;
  }
  for (const section of document.querySelectorAll("main section:has(article)"))
    section.hidden = !section.querySelector("article:not([hidden])");
  for (const area of document.querySelectorAll("nav [data-area]")) {
    area.hidden = !area.querySelector("li:not([hidden], [data-whole])");
    area.querySelector("details").open = words.length > 0;
  }
  status.textContent = words.length ? `${found} found` : "";
}

field.addEventListener("input", search);
if (field.value) search(); // the browser restored it
