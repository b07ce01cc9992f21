// Saves a chart as a file, with its title and its legend. keys: label, color and dashes of each
// line. colours: of the ground and of texts. name: the file's, without its ending.
import { svg } from "./chart-parts.js";

const HEAD_PX = 34;
const KEY_PX = 22;
const PNG_SCALE = 2;

export function saveAsSvg(drawing, details) {
  const text = textOf(fileOf(drawing, details));
  save(new Blob([text], { type: "image/svg+xml" }), `${details.name}.svg`);
}

export async function saveAsPng(drawing, details) {
  const file = fileOf(drawing, details);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(file))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = file.getAttribute("width") * PNG_SCALE;
  canvas.height = file.getAttribute("height") * PNG_SCALE;
  const context = canvas.getContext("2d");
  context.scale(PNG_SCALE, PNG_SCALE);
  context.drawImage(image, 0, 0);
  canvas.toBlob((blob) => save(blob, `${details.name}.png`), "image/png");
}

function fileOf(drawing, { keys, colours, title }) {
  const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
  const total = HEAD_PX + height + KEY_PX * keys.length;
  const font = { fill: colours.ink, "font-family": "system-ui, sans-serif" };
  const plot = drawing.cloneNode(true);
  plot.querySelector(".at").remove();
  plot.setAttribute("y", HEAD_PX);
  return svg("svg", { width, height: total, viewBox: `0 0 ${width} ${total}` }, [
    svg("rect", { width, height: total, fill: colours.ground }),
    svg("text", { ...font, x: 16, y: 24, "font-size": 15, "font-weight": 600 }, [title]),
    plot,
    ...keys.flatMap(([label, stroke, dashes], index) => {
      const y = HEAD_PX + height + KEY_PX * index + 10;
      return [
        svg("line", { x1: 62, x2: 82, y1: y, y2: y, stroke, "stroke-width": 3, ...dashes }),
        svg("text", { ...font, x: 90, y: y + 4, "font-size": 12 }, [label]),
      ];
    }),
  ]);
}

const textOf = (element) => new XMLSerializer().serializeToString(element);

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
