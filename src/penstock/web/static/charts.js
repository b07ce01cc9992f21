// Time charts as SVG, from the data of the macro ui.chart: {"times": [seconds], "series":
// [{"label", "values", "style": "number" or "percent", "colour": "series-1", "line": "dashed"}],
// "axes": {"x": "Day of entry", "y": "Conversion rate"}, "zone": "Europe/Berlin"}. A page with
// charts loads this module in its block `scripts`, and has a table of the same numbers.
import { saveAsPng, saveAsSvg } from "./chart-files.js";
import { on } from "./delegation.js";
import { formatNumber, formatTime } from "./formats.js";
import { labelsOf, linesOf, svg, ticksOf } from "./chart-parts.js";

const MARGIN = { top: 12, right: 28, bottom: 46, left: 62 };
const X_LABEL_PX = 84;
const hidden = new WeakMap(); // chart => indices of the series that the reader has hidden

const dataOf = (chart) => JSON.parse(chart.dataset.chart);

function draw(chart) {
  const data = dataOf(chart);
  const isHidden = hidden.get(chart) ?? new Set();
  const drawing = drawingOf(chart, data, isHidden);
  chart.querySelector("svg.drawing")?.remove();
  chart.prepend(drawing);
  const keys = data.series.map((series, index) => keyOf(series, index, isHidden.has(index)));
  chart.querySelector(".chart-keys").replaceChildren(...keys);
}

// Custom properties contain light-dark(). Only a computed color resolves it. The drawing has no
// classes, so that a saved file looks the same.
function colour(name) {
  const probe = document.createElement("i");
  probe.className = "unseen";
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

const colourOf = (series, index) => colour(series.colour ?? `series-${(index % 6) + 1}`);
const DASHES = { dashed: "6 4", dotted: "1 4" };
const dashesOf = ({ line }) => (line ? { "stroke-dasharray": DASHES[line] } : {});

// Positions in px: x by index of a time, y by value.
function scalesOf(chart, { times, series }, isHidden) {
  const [width, height] = [chart.clientWidth, Number(chart.dataset.height)];
  const values = series.filter((_, index) => !isHidden.has(index)).flatMap((one) => one.values);
  const ticks = ticksOf(Math.max(0, ...values.map((value) => value ?? 0)));
  const [plotWidth, plotHeight] = [
    width - MARGIN.left - MARGIN.right,
    height - MARGIN.top - MARGIN.bottom,
  ];
  const span = times.at(-1) - times[0];
  return {
    width,
    height,
    ticks,
    x: (index) =>
      MARGIN.left + plotWidth * (span ? (times[index] - times[0]) / span : 0.5),
    y: (value) => MARGIN.top + plotHeight * (1 - value / ticks.at(-1)),
  };
}

const dayOf = ({ times, zone }, index, style) =>
  formatTime(new Date(times[index] * 1000), style, zone);

function drawingOf(chart, data, isHidden) {
  const scales = scalesOf(chart, data, isHidden);
  const { width, height, ticks, x, y } = scales;
  const soft = { fill: colour("soft"), "font-size": 12, "font-family": "system-ui, sans-serif" };
  const grid = { stroke: colour("grid"), "stroke-width": 1 };
  const [bottom, right] = [height - MARGIN.bottom, width - MARGIN.right];
  const style = data.series[0]?.style;
  const label = (attributes, text) => svg("text", { ...soft, ...attributes }, [text]);
  const days = labelsOf(
    data.times.map((_, index) => dayOf(data, index, "day")),
    (right - MARGIN.left) / X_LABEL_PX,
  );
  const lines = data.series.flatMap((series, index) =>
    isHidden.has(index) ? [] : lineOf(series, index, scales),
  );
  const attributes = { class: "drawing", viewBox: `0 0 ${width} ${height}`, width, height };
  return svg("svg", { ...attributes, role: "img", "aria-label": chart.dataset.label }, [
    ...ticks.flatMap((tick) => [
      svg("line", { ...grid, x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }),
      label(
        { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" },
        formatNumber(tick, style === "percent" ? "share" : style),
      ),
    ]),
    ...days.map(([index, text]) =>
      label({ x: x(index), y: bottom + 18, "text-anchor": "middle" }, text),
    ),
    label(
      { x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle" },
      data.axes?.x ?? "",
    ),
    label(
      {
        transform: `translate(12 ${(MARGIN.top + bottom) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      data.axes?.y ?? "",
    ),
    ...lines,
    svg("line", {
      class: "at",
      stroke: colour("line-strong"),
      y1: MARGIN.top,
      y2: bottom,
      display: "none",
    }),
  ]);
}

function lineOf(series, index, { x, y }) {
  const stroke = colourOf(series, index);
  const points = series.values.map((value, at) => (value === null ? null : [x(at), y(value)]));
  const dots = points.filter(Boolean).length <= 40 ? points.filter(Boolean) : [];
  return [
    svg("path", {
      d: linesOf(points),
      fill: "none",
      stroke,
      "stroke-width": 2,
      "stroke-linejoin": "round",
      ...dashesOf(series),
    }),
    ...dots.map(([cx, cy]) => svg("circle", { cx, cy, r: 3, fill: stroke })),
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
  const rows = data.series.flatMap(({ label, values, style }, index) => {
    if (isHidden.has(index) || values[at] === null) return [];
    const row = document.createElement("div");
    row.append(
      Object.assign(document.createElement("bdi"), { textContent: label }),
      Object.assign(document.createElement("strong"), {
        textContent: formatNumber(values[at], style),
      }),
    );
    return [row];
  });
  const day = Object.assign(document.createElement("p"), {
    textContent: dayOf(data, at, chart.dataset.times),
  });
  tip.replaceChildren(day, ...rows);
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
on("pointermove", "svg.drawing", (drawing, event) => point(chartOf(drawing), event));
on("pointerdown", "svg.drawing", (drawing, event) => point(chartOf(drawing), event));
on("pointerout", "svg.drawing", (drawing, { relatedTarget }) => {
  if (!drawing.contains(relatedTarget)) leave(chartOf(drawing));
});
on("click", ".chart-key", (key) => {
  const [chart, index] = [chartOf(key), Number(key.dataset.series)];
  const isHidden = hidden.get(chart) ?? new Set();
  if (!isHidden.delete(index)) isHidden.add(index);
  hidden.set(chart, isHidden);
  draw(chart);
  chart.querySelectorAll(".chart-key")[index].focus();
});
on("click", "[data-saves]", (button) => {
  const chart = chartOf(button);
  const isHidden = hidden.get(chart) ?? new Set();
  const keys = dataOf(chart).series.flatMap((series, index) =>
    isHidden.has(index) ? [] : [[series.label, colourOf(series, index), dashesOf(series)]],
  );
  const save = button.dataset.saves === "png" ? saveAsPng : saveAsSvg;
  const colours = { ground: colour("surface"), ink: colour("ink") };
  const details = { keys, colours, title: document.title, name: chart.id };
  save(chart.querySelector("svg.drawing"), details);
});

const resizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const shown = target.querySelector("svg.drawing");
    if (Number(shown?.getAttribute("width")) !== Math.round(contentRect.width)) draw(target);
  }
});

export function drawAll(root = document) {
  for (const chart of root.querySelectorAll("[data-chart]")) {
    draw(chart);
    resizes.observe(chart);
  }
}

drawAll();
document.addEventListener("htmx:load", (event) =>
  drawAll(event.detail.elt.parentElement ?? document),
);
document.addEventListener("theme", () => drawAll());
