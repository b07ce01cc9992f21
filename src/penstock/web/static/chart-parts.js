// Parts of a chart: SVG elements, ticks of an axis, labels, and lines with gaps.
const NAMESPACE = "http://www.w3.org/2000/svg";
const STEPS = [1, 2, 2.5, 5, 10];
const NOTE_CHARS = 28;
const NOTE_CHAR_PX = 6.5;

export function svg(name, attributes, children = []) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Round numbers from at most the lowest to at least the highest value; 0 and 1 if both are 0. most:
// about how many of them.
export function ticksOf(lowest, highest, most) {
  const span = highest - lowest;
  if (span <= 0) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = power * STEPS.find((factor) => (power * factor * most) / span >= 1 - 1e-9);
  const [first, last] = [Math.floor(lowest / step + 1e-9), Math.ceil(highest / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) =>
    Number(((first + index) * step).toPrecision(12)),
  );
}

// At most this many of the labels, evenly spaced, as pairs of index and text. Of equal neighbours,
// only the first is shown.
export function labelsOf(labels, most) {
  const every = Math.max(1, Math.ceil(labels.length / Math.max(2, most)));
  return labels
    .map((label, index) => [index, label])
    .filter(([index, label]) => index % every === 0 && label !== labels[index - every]);
}

// Where to write notes beside their lines, as triples of x, text-anchor and text. notes: pairs of x
// and text, from left to right. Long texts are cut, and those without room are left out.
export function placesOf(notes, left, right) {
  const places = [];
  let end = left;
  for (const [at, text] of notes) {
    const cut = text.length > NOTE_CHARS ? `${text.slice(0, NOTE_CHARS - 1)}…` : text;
    const width = cut.length * NOTE_CHAR_PX;
    if (at >= end && at + width <= right) {
      places.push([at, "start", cut]);
      end = at + width + NOTE_CHAR_PX;
    } else if (at - width >= end) {
      places.push([at, "end", cut]);
      end = at + NOTE_CHAR_PX;
    }
  }
  return places;
}

// The path through points in px, interrupted where a point is null.
export function linesOf(points) {
  return points
    .map((point, index) => point && `${points[index - 1] ? "L" : "M"}${point.map(round).join(" ")}`)
    .filter(Boolean)
    .join("");
}

// The path around the areas between two edges, which have gaps at the same points.
export function areaOf(lower, upper) {
  const runs = [];
  lower.forEach((point, index) => {
    if (!point) return;
    if (!lower[index - 1]) runs.push([]);
    runs.at(-1).push(index);
  });
  return runs
    .map((run) => [...run.map((at) => upper[at]), ...run.map((at) => lower[at]).reverse()])
    .map((outline) => `${linesOf(outline)}Z`)
    .join("");
}

const round = (number) => Math.round(number * 100) / 100;
