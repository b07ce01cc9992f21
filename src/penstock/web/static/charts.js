// Time charts with uPlot, from the data of the macro ui.chart: {"times": [seconds], "series":
// [{"label", "values", "style": "number" or "percent", "colour": "series-1", "dashed": true}],
// "zone": "Europe/Berlin"}. A page with charts loads the library and this module in its block
// `scripts`, and has a table of the same numbers.
import { formatNumber, formatTime } from "./formats.js";

const HALF_DAY_S = 43_200; // margin on both sides of a single mark
const charts = new Map(); // element -> uPlot

// Custom properties contain light-dark(). Only a computed color resolves it.
function colour(name) {
  const probe = document.createElement("i");
  probe.className = "unseen";
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function uplotSeries(series, index) {
  const stroke = colour(series.colour ?? `series-${(index % 5) + 1}`);
  return {
    label: series.label,
    stroke,
    width: 2,
    dash: series.dashed ? [6, 4] : undefined,
    points: { size: 6, fill: stroke },
    value: (_, value) => (value === null ? "–" : formatNumber(value, series.style)),
    spanGaps: false,
  };
}

// Removes the label of every mark on a day except the first.
const withoutRepeats = (labels) =>
  labels.map((label, index) => (label === labels[index - 1] ? "" : label));

function draw(element) {
  charts.get(element)?.destroy();
  const { times, series, zone } = JSON.parse(element.dataset.chart);
  const axis = {
    stroke: colour("soft"),
    grid: { stroke: colour("grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const style = series[0]?.style;
  const dayOf = (time, spelling) =>
    time === null ? "–" : formatTime(new Date(time * 1000), spelling, zone);
  const options = {
    width: element.clientWidth,
    height: Number(element.dataset.height),
    tzDate: (time) =>
      zone ? window.uPlot.tzDate(new Date(time * 1000), zone) : new Date(time * 1000),
    cursor: { y: false },
    legend: { live: true },
    axes: [
      {
        ...axis,
        grid: { show: false },
        gap: 10,
        values: (_, times) => withoutRepeats(times.map((time) => dayOf(time, "day"))),
      },
      {
        ...axis,
        size: 56,
        values: (_, values) => values.map((value) => formatNumber(value, style)),
      },
    ],
    scales: {
      x: {
        range: (_, first, last) =>
          first === last ? [first - HALF_DAY_S, last + HALF_DAY_S] : [first, last],
      },
      y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] },
    },
    series: [
      { label: "Date", value: (_, time) => dayOf(time, "date") },
      ...series.map(uplotSeries),
    ],
  };
  charts.set(
    element,
    new window.uPlot(options, [times, ...series.map(({ values }) => values)], element),
  );
}

const resizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    charts
      .get(target)
      ?.setSize({ width: contentRect.width, height: Number(target.dataset.height) });
  }
});

export function drawAll(root = document) {
  for (const element of charts.keys()) {
    if (!element.isConnected) charts.delete(element);
  }
  for (const element of root.querySelectorAll("[data-chart]")) {
    draw(element);
    resizes.observe(element);
  }
}

drawAll();
document.addEventListener("htmx:load", (event) =>
  drawAll(event.detail.elt.parentElement ?? document),
);
document.addEventListener("theme", () => drawAll());
