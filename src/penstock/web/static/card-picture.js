// Draws a card as an SVG picture that needs no style sheet and no font of this page, so that it
// looks the same in a document. Controls are left out (`.as-picture` in ui.css).
import { svg } from "./chart-parts.js";

const LOOK_OF_SHAPES = [
  "fill",
  "fill-opacity",
  "font-family",
  "font-size",
  "opacity",
  "stroke",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "stroke-width",
  "text-anchor",
];
const CLEAR = "rgba(0, 0, 0, 0)";
const measure = document.createElement("canvas").getContext("2d");

// title: the line above the card. about: an element with the line below it.
export function pictureOf(card, { title, about }) {
  const head = document.createElement("div");
  head.className = "picture-head";
  head.append(Object.assign(document.createElement("strong"), { textContent: title }));
  head.append(Object.assign(about, { className: "soft small", hidden: false }));
  card.classList.add("as-picture");
  card.prepend(head);
  try {
    const { left, top } = card.getBoundingClientRect();
    const [width, height] = [card.scrollWidth, card.scrollHeight];
    const fill = getComputedStyle(card).backgroundColor;
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, [
      svg("defs", {}, [shapeOf(document.getElementById("hatch"))]),
      svg("rect", { width, height, fill }),
      ...[...card.children].flatMap((element) => partsOf(element, { left, top })),
    ]);
  } finally {
    head.remove();
    card.classList.remove("as-picture");
  }
}

function partsOf(element, origin) {
  if (!element.checkVisibility({ visibilityProperty: true })) return [];
  if (element.matches(".unseen")) return [];
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const [x, y] = [box.left - origin.left, box.top - origin.top];
  if (element.matches("svg")) {
    const shape = shapeOf(element);
    const place = { x, y, width: box.width, height: box.height };
    for (const [name, value] of Object.entries(place)) shape.setAttribute(name, value);
    return [shape];
  }
  return [
    ...boxOf(style, { x, y, width: box.width, height: box.height }),
    ...markOf(getComputedStyle(element, "::before"), x, y + box.height / 2),
    ...[...element.childNodes].flatMap((node) =>
      node.nodeType === Node.TEXT_NODE
        ? textsOf(node, style, origin)
        : node instanceof Element
          ? partsOf(node, origin)
          : [],
    ),
  ];
}

// The background of an element, and its horizontal lines.
function boxOf(style, { x, y, width, height }) {
  const rx = Number.parseFloat(style.borderTopLeftRadius);
  const edges = [
    [style.borderTopWidth, style.borderTopColor, y],
    [style.borderBottomWidth, style.borderBottomColor, y + height],
  ];
  return [
    ...(style.backgroundColor === CLEAR
      ? []
      : [svg("rect", { x, y, width, height, rx, fill: style.backgroundColor })]),
    ...edges.flatMap(([wide, stroke, at]) =>
      Number.parseFloat(wide)
        ? [svg("line", { x1: x, x2: x + width, y1: at, y2: at, stroke, "stroke-width": wide })]
        : [],
    ),
  ];
}

// The colour of a legend, which a page draws before the text.
function markOf(style, x, middle) {
  const [width, height] = [style.width, style.height].map(Number.parseFloat);
  const isHatched = style.backgroundImage !== "none";
  if (style.content === "none" || !width || !height) return [];
  if (!isHatched && style.backgroundColor === CLEAR) return [];
  const fill = isHatched ? "url(#hatch)" : style.backgroundColor;
  return [svg("rect", { x, y: middle - height / 2, width, height, rx: 2, fill })];
}

// The lines of a text, each where the page shows it.
function textsOf(node, style, origin) {
  const range = document.createRange();
  const lines = [];
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const [box] = range.getClientRects();
    if (!box) continue;
    const line = lines.at(-1);
    if (line && Math.abs(line.box.top - box.top) < 2) line.text += ` ${word}`;
    else lines.push({ box, text: word });
  }
  const { color, fontFamily, fontSize, fontStyle, fontWeight } = style;
  measure.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
  const font = {
    fill: color,
    "font-family": fontFamily,
    "font-size": fontSize,
    "font-style": fontStyle,
    "font-weight": fontWeight,
  };
  return lines.map(({ box, text }) => {
    const y = box.top - origin.top + measure.measureText(text).fontBoundingBoxAscent;
    return svg("text", { ...font, x: box.left - origin.left, y }, [text]);
  });
}

// A copy of an SVG element with the look that the style sheets of the page give it.
function shapeOf(element) {
  const copy = element.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [index, each] of [element, ...element.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(each);
    for (const name of LOOK_OF_SHAPES)
      copies[index].setAttribute(name, style.getPropertyValue(name));
    copies[index].removeAttribute("class");
  }
  return copy;
}
