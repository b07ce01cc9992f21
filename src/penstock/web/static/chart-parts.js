// Parts of a chart: SVG elements, ticks of an axis, labels, and lines with gaps.
const NAMESPACE = "http://www.w3.org/2000/svg";
const MAX_TICKS = 5;
const STEPS = [1, 2, 2.5, 5, 10];

export function svg(name, attributes, children = []) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Round numbers from 0 to at least the highest value; 0 and 1 if there is no value above 0.
export function ticksOf(highest) {
  if (highest <= 0) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(highest / MAX_TICKS));
  const step = power * STEPS.find((factor) => (power * factor * MAX_TICKS) / highest >= 1 - 1e-9);
  const count = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(12)));
}

// At most this many of the labels, evenly spaced, as pairs of index and text. Of equal neighbours,
// only the first is shown.
export function labelsOf(labels, most) {
  const every = Math.max(1, Math.ceil(labels.length / Math.max(2, most)));
  return labels
    .map((label, index) => [index, label])
    .filter(([index, label]) => index % every === 0 && label !== labels[index - every]);
}

// The path through points in px, interrupted where a point is null.
export function linesOf(points) {
  return points
    .map((point, index) => point && `${points[index - 1] ? "L" : "M"}${point.map(round).join(" ")}`)
    .filter(Boolean)
    .join("");
}

const round = (number) => Math.round(number * 100) / 100;
