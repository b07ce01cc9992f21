// Charts over time as SVG, from the data of the macros ui.chart, ui.small_chart and ui.sparkline:
// {"times": [seconds], "series": [{"label", "values", "style": "number" or "percent",
// "colour": "series-1", "line": "dashed", "least", "most"}], "axes": {"x": "Day of entry",
// "y": "Conversion rate"}, "zone": "Europe/Berlin", "marks": [{"index", "text"}]}. A band spans
// what is between least and most. A mark is a note at the time with this index. A page with charts
// loads this module in its block `scripts`, and has a table of the same numbers.
import "./card-files.js";
import { on } from "./delegation.js";
import { formatNumber, formatTime } from "./formats.js";
import { areaOf, labelsOf, linesOf, placesOf, svg, ticksOf } from "./chart-parts.js";

// Distances of the plot from the edges in px, by the look of a chart.
const LOOKS = {
  full: { top: 16, right: 28, bottom: 46, left: 62, ticks: 5 },
  small: { top: 8, right: 10, bottom: 24, left: 46, ticks: 3 },
  line: { top: 3, right: 3, bottom: 3, left: 3, ticks: 3 },
};
const X_LABEL_PX = 84;
const SEGMENTS = 6;
const MIN_RATE_SPAN = 0.1; // smaller changes of a rate do not fill the chart
const HEADROOM = 1.15; // a band above this multiple of the highest line is cut
const hidden = new WeakMap(); // chart => indices of the series that the reader has hidden

const dataOf = (chart) => JSON.parse(chart.dataset.chart);

function draw(chart) {
  const data = dataOf(chart);
  const isHidden = hidden.get(chart) ?? new Set();
  const drawing = drawingOf(chart, data, isHidden);
  chart.querySelector("svg.drawing")?.remove();
  chart.prepend(drawing);
  const keys = data.series.flatMap((series, index) =>
    known([...series.values, ...(series.most ?? [])]).length
      ? [keyOf(series, index, isHidden.has(index))]
      : [],
  );
  chart.querySelector(".chart-keys")?.replaceChildren(...(keys.length > 1 ? keys : []));
}

// Custom properties contain light-dark(). Only a computed color resolves it. The drawing has no
// classes, so that a copied picture looks the same.
const colours = new Map();
function colour(name) {
  if (colours.has(name)) return colours.get(name);
  const probe = document.createElement("i");
  probe.className = "unseen";
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  colours.set(name, getComputedStyle(probe).color);
  probe.remove();
  return colours.get(name);
}

const colourOf = (series, index) => colour(series.colour ?? `series-${(index % SEGMENTS) + 1}`);
const DASHES = { dashed: "6 4" };
const dashesOf = ({ line }) => (line ? { "stroke-dasharray": DASHES[line] } : {});
const known = (values = []) => values.filter((value) => value !== null);

// The lowest and the highest value of a scale. Counts start at 0, and so do rates unless all are
// above half of the highest. Lines decide: bands of new units, which often reach 100%, are cut.
function rangeOf(series) {
  const lines = series.flatMap(({ values }) => known(values));
  const bands = series.flatMap(({ least, most }) => [...known(least), ...known(most)]);
  const values = lines.length ? lines : bands;
  if (!values.length) return [0, 0];
  const highest = Math.max(...values);
  const lowest = Math.min(...values, ...bands);
  const top = Math.max(highest, Math.min(Math.max(...values, ...bands), highest * HEADROOM));
  const isRate = series[0].style === "percent";
  return isRate && lowest > top / 2 ? [Math.min(lowest, top - MIN_RATE_SPAN), top] : [0, top];
}

// Positions in px: x by index of a time, y by value.
function scalesOf(chart, { times, series }, isHidden) {
  const [width, height] = [chart.clientWidth, Number(chart.dataset.height)];
  const margin = LOOKS[chart.dataset.look];
  const shown = series.filter((_, index) => !isHidden.has(index));
  const ticks = ticksOf(...rangeOf(shown), margin.ticks);
  const [plotWidth, plotHeight] = [
    width - margin.left - margin.right,
    height - margin.top - margin.bottom,
  ];
  const span = times.at(-1) - times[0];
  return {
    width,
    height,
    ticks,
    margin,
    bottom: height - margin.bottom,
    right: width - margin.right,
    x: (index) =>
      margin.left + plotWidth * (span ? (times[index] - times[0]) / span : 0.5),
    y: (value) =>
      margin.top + plotHeight * (1 - (value - ticks[0]) / (ticks.at(-1) - ticks[0])),
  };
}

const dayOf = ({ times, zone }, index, style) =>
  formatTime(new Date(times[index] * 1000), style, zone);

function drawingOf(chart, data, isHidden) {
  const scales = scalesOf(chart, data, isHidden);
  const { width, height, margin, bottom } = scales;
  const parts = data.series.map((series, index) =>
    isHidden.has(index) ? [[], []] : [bandOf(series, index, scales), lineOf(series, index, scales)],
  );
  // This inner drawing cuts bands at the edges of the plot.
  const box = { x: margin.left, y: margin.top };
  const size = { width: Math.max(0, scales.right - box.x), height: bottom - box.y };
  const viewBox = [box.x, box.y, size.width, size.height].join(" ");
  const attributes = { class: "drawing", viewBox: `0 0 ${width} ${height}`, width, height };
  return svg("svg", { ...attributes, role: "img", "aria-label": chart.dataset.label }, [
    ...(chart.dataset.look === "line" ? [] : axesOf(chart, data, scales)),
    ...marksOf(chart, data, scales),
    svg("svg", { ...box, ...size, viewBox }, parts.flatMap(([band]) => band)),
    ...parts.flatMap(([, line]) => line),
    svg("line", {
      class: "at",
      stroke: colour("line-strong"),
      y1: margin.top,
      y2: bottom,
      display: "none",
    }),
  ]);
}

function axesOf(chart, data, { height, ticks, margin, bottom, right, x, y }) {
  const soft = { fill: colour("soft"), "font-size": 12, "font-family": "system-ui, sans-serif" };
  const grid = { stroke: colour("grid"), "stroke-width": 1 };
  const style = data.series[0]?.style;
  const label = (attributes, text) => svg("text", { ...soft, ...attributes }, [text]);
  const rows = ticks.flatMap((tick) => [
    svg("line", { ...grid, x1: margin.left, x2: right, y1: y(tick), y2: y(tick) }),
    label(
      { x: margin.left - 8, y: y(tick) + 4, "text-anchor": "end" },
      formatNumber(tick, style === "percent" ? "share" : style),
    ),
  ]);
  const below = (attributes, text) => label({ y: bottom + 18, ...attributes }, text);
  if (chart.dataset.look === "small") {
    const ends = { 0: "start", [data.times.length - 1]: "end" };
    return [
      ...rows,
      ...fewDaysOf(data, x).map(([index, text]) =>
        below({ x: x(index), "text-anchor": ends[index] ?? "middle" }, text),
      ),
    ];
  }
  const days = labelsOf(
    data.times.map((_, index) => dayOf(data, index, "day")),
    (right - margin.left) / X_LABEL_PX,
  );
  const [middle, centre] = [(margin.left + right) / 2, (margin.top + bottom) / 2];
  const turned = `translate(12 ${centre}) rotate(-90)`;
  return [
    ...rows,
    ...days.map(([index, text]) => below({ x: x(index), "text-anchor": "middle" }, text)),
    label({ x: middle, y: height - 6, "text-anchor": "middle" }, data.axes?.x ?? ""),
    label({ transform: turned, "text-anchor": "middle" }, data.axes?.y ?? ""),
  ];
}

// The first day, the last settled day and the end of a small chart.
function fewDaysOf(data, x) {
  const last = data.times.length - 1;
  const settled = data.series[0].values.findLastIndex((value) => value !== null);
  const end = settled < last ? "open" : dayOf(data, last, "day");
  const isFar = (from, to) => x(to) - x(from) > X_LABEL_PX;
  const hasRoom = isFar(0, settled) && isFar(settled, last);
  const between = hasRoom ? [[settled, dayOf(data, settled, "day")]] : [];
  return [[0, dayOf(data, 0, "day")], ...between, ...(last > 0 ? [[last, end]] : [])];
}

// A line for each time with notes. Above it, a full chart has as much of the texts as fits.
function marksOf(chart, { marks = [] }, { margin, bottom, right, x }) {
  const look = { stroke: colour("soft"), "stroke-dasharray": "2 3", opacity: 0.7 };
  const lines = [...new Set(marks.map(({ index }) => x(index)))].map((at) =>
    svg("line", { ...look, x1: at, x2: at, y1: margin.top, y2: bottom }),
  );
  if (chart.dataset.look !== "full") return lines;
  const font = { fill: colour("soft"), "font-size": 11, "font-family": "system-ui, sans-serif" };
  const notes = marks.map(({ index, text }) => [x(index), text]);
  const places = placesOf(notes, margin.left, right + margin.right);
  return [
    ...lines,
    ...places.map(([at, anchor, text]) =>
      svg("text", { ...font, x: at, y: margin.top - 5, "text-anchor": anchor }, [text]),
    ),
  ];
}

// The outline gives the band of a single time a width.
function bandOf(series, index, { x, y }) {
  if (!series.most) return [];
  const fill = colourOf(series, index);
  const edge = (values) => values.map((value, at) => (value === null ? null : [x(at), y(value)]));
  const look = { fill, stroke: fill, "stroke-width": 2, "stroke-linejoin": "round", opacity: 0.2 };
  return [svg("path", { d: areaOf(edge(series.least), edge(series.most)), ...look })];
}

function lineOf(series, index, { x, y, margin }) {
  const stroke = colourOf(series, index);
  const points = series.values.map((value, at) => (value === null ? null : [x(at), y(value)]));
  const isLone = (_, at) => !points[at - 1] && !points[at + 1];
  const dots = points.filter((point, at) => point && (margin.ticks > 3 || isLone(point, at)));
  const isCrowded = dots.length > 40 || series.line;
  return [
    svg("path", {
      d: linesOf(points),
      fill: "none",
      stroke,
      "stroke-width": 2,
      "stroke-linejoin": "round",
      ...dashesOf(series),
    }),
    ...(isCrowded ? dots.filter(isLone) : dots).map(([cx, cy]) =>
      svg("circle", { cx, cy, r: 3, fill: stroke }),
    ),
  ];
}

// A button of the legend, which shows or hides its line.
function keyOf(series, index, isHidden) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "chart-key";
  button.dataset.series = index;
  button.setAttribute("aria-pressed", String(!isHidden));
  const line = { x1: 0, x2: 20, y1: 5, y2: 5, stroke: colourOf(series, index), "stroke-width": 3 };
  button.append(
    svg("svg", { width: 20, height: 10, "aria-hidden": true }, [
      svg("line", { ...line, ...dashesOf(series) }),
    ]),
    Object.assign(document.createElement("bdi"), { textContent: series.label }),
  );
  return button;
}

function valueOf({ values, least, most, style }, at) {
  const value = values[at] === null ? null : formatNumber(values[at], style);
  if (!most || most[at] === null || least[at] === most[at]) return value;
  const range = `${formatNumber(least[at], style)} to ${formatNumber(most[at], style)}`;
  return value === null ? range : `${value} (${range})`;
}

// Shows the values of the time that is nearest to the pointer, beside it.
function point(chart, { clientX, clientY }) {
  const data = dataOf(chart);
  const isHidden = hidden.get(chart) ?? new Set();
  const { x } = scalesOf(chart, data, isHidden);
  const box = chart.getBoundingClientRect();
  const [left, top] = [clientX - box.left, clientY - box.top];
  const distances = data.times.map((_, index) => Math.abs(x(index) - left));
  const at = distances.indexOf(Math.min(...distances));
  const tip = chart.querySelector(".chart-tip");
  const rows = data.series.flatMap((series, index) => {
    const text = isHidden.has(index) ? null : valueOf(series, at);
    if (text === null) return [];
    const row = document.createElement("div");
    row.append(
      Object.assign(document.createElement("bdi"), { textContent: series.label }),
      Object.assign(document.createElement("strong"), { textContent: text }),
    );
    return [row];
  });
  const day = Object.assign(document.createElement("p"), {
    textContent: dayOf(data, at, chart.dataset.times),
  });
  const notes = (data.marks ?? []).filter(({ index }) => index === at);
  const texts = notes.map(({ text }) =>
    Object.assign(document.createElement("p"), { className: "note", textContent: text }),
  );
  tip.replaceChildren(day, ...rows, ...texts);
  tip.hidden = false;
  const beside = left + 14 + tip.offsetWidth > box.width ? left - 14 - tip.offsetWidth : left + 14;
  tip.style.left = `${Math.max(0, beside)}px`;
  tip.style.top = `${Math.max(0, Math.min(top, chart.dataset.height - tip.offsetHeight))}px`;
  const mark = chart.querySelector(".at");
  mark.setAttribute("x1", x(at));
  mark.setAttribute("x2", x(at));
  mark.removeAttribute("display");
}

function leave(chart) {
  chart.querySelector(".chart-tip").hidden = true;
  chart.querySelector(".at").setAttribute("display", "none");
}

const chartOf = (element) => element.closest("[data-chart]");
const POINTED = "[data-chart]:has(.chart-tip) svg.drawing";
on("pointermove", POINTED, (drawing, event) => point(chartOf(drawing), event));
on("pointerdown", POINTED, (drawing, event) => point(chartOf(drawing), event));
on("pointerout", POINTED, (drawing, { relatedTarget }) => {
  if (!drawing.contains(relatedTarget)) leave(chartOf(drawing));
});
on("click", ".chart-key", (key) => {
  const [chart, index] = [chartOf(key), Number(key.dataset.series)];
  const isHidden = hidden.get(chart) ?? new Set();
  if (!isHidden.delete(index)) isHidden.add(index);
  hidden.set(chart, isHidden);
  draw(chart);
  chart.querySelector(`.chart-key[data-series="${index}"]`).focus();
});
const resizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const shown = target.querySelector("svg.drawing");
    if (Number(shown?.getAttribute("width")) !== Math.round(contentRect.width)) draw(target);
  }
});

function drawAll(charts) {
  for (const chart of charts) {
    draw(chart);
    resizes.observe(chart);
  }
}

const ALL = "[data-chart]";
drawAll(document.querySelectorAll(ALL));
document.addEventListener("htmx:load", () =>
  drawAll(document.querySelectorAll(`${ALL}:not(:has(svg.drawing[viewBox]))`)),
);
document.addEventListener("theme", () => {
  colours.clear();
  drawAll(document.querySelectorAll(ALL));
});
