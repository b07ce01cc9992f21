// The menu "Copy" of a card (macro ui.copy_menu): its picture and its table, for the clipboard and
// as files.
import { pictureOf } from "./card-picture.js";
import { csvOf, rowsOf, tsvOf } from "./card-table.js";
import { copy } from "./clipboard.js";
import { on } from "./delegation.js";
import { toast } from "./toast.js";

const PNG_SCALE = 2;

const ACTIONS = {
  picture: copyPicture,
  table: (card) => copy(tsvOf(rowsOf(card))),
  png: async (card, details) => save(await pngOf(pictureOf(card, details)), details, "png"),
  svg: (card, details) => save(svgFile(pictureOf(card, details)), details, "svg"),
  csv: (card, details) =>
    save(new Blob([csvOf(rowsOf(card))], { type: "text/csv" }), details, "csv"),
};

on("click", "[data-card]", (button) => {
  const menu = button.closest(".copy-menu");
  const about = menu.querySelector(".about").cloneNode(true);
  const receipt = document.querySelector("#receipt > a");
  if (receipt) about.append(`; receipt ${receipt.href}`);
  menu.open = false;
  menu.querySelector("summary").focus();
  ACTIONS[button.dataset.card](menu.closest(".card"), { title: menu.dataset.title, about });
});

// A browser copies pictures only on https and localhost.
async function copyPicture(card, details) {
  const png = pngOf(pictureOf(card, details));
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
    toast("Copied.");
  } catch {
    save(await png, details, "png");
    toast("This browser does not let pages copy pictures. The picture was saved instead.");
  }
}

const textOf = (picture) => new XMLSerializer().serializeToString(picture);
const svgFile = (picture) => new Blob([textOf(picture)], { type: "image/svg+xml" });

async function pngOf(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = picture.getAttribute("width") * PNG_SCALE;
  canvas.height = picture.getAttribute("height") * PNG_SCALE;
  const context = canvas.getContext("2d");
  context.scale(PNG_SCALE, PNG_SCALE);
  context.drawImage(image, 0, 0);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

function save(blob, { title }, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${title.replace(/[^\p{L}\p{N}]+/gu, "-").toLowerCase()}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
