// Time charts with uPlot, out of the data that the macro ui.chart gives them:
// {"times": [seconds], "series": [{"label", "values", "style": "number" or "percent", "colour": "series-1", "dashed": true}], "zone": "Europe/Berlin"}.
// A page that has charts loads the library and this module in its block `scripts`; a table of the same numbers stands behind each.
import { formatNumber, formatTime } from "./formats.js";

const drawn = new Map(); // element -> uPlot

// Custom properties hold light-dark(); only a real property tells which of both it is.
function colour(name) {
  const probe = document.createElement("i");
  probe.className = "unseen";
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function seriesOf(one, at) {
  const stroke = colour(one.colour ?? `series-${(at % 5) + 1}`);
  return {
    label: one.label,
    stroke,
    width: 2,
    dash: one.dashed ? [6, 4] : undefined,
    points: { size: 6, fill: stroke },
    value: (_, value) => (value === null ? "–" : formatNumber(value, one.style)),
    spanGaps: false,
  };
}

// Marks within one day share its label, at the first of them.
const once = (labels) => labels.map((label, at) => (label === labels[at - 1] ? "" : label));

function draw(element) {
  drawn.get(element)?.destroy();
  const { times, series, zone } = JSON.parse(element.dataset.chart);
  const axis = { stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const style = series[0]?.style;
  const dayOf = (time, spelling) => (time === null ? "–" : formatTime(new Date(time * 1000), spelling, zone));
  const options = {
    width: element.clientWidth,
    height: Number(element.dataset.height),
    tzDate: (time) => (zone ? window.uPlot.tzDate(new Date(time * 1000), zone) : new Date(time * 1000)),
    cursor: { y: false },
    legend: { live: true },
    axes: [{ ...axis, grid: { show: false }, values: (_, times) => once(times.map((time) => dayOf(time, "day"))) }, { ...axis, size: 56, values: (_, values) => values.map((value) => formatNumber(value, style)) }],
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
    series: [{ label: "Date", value: (_, time) => dayOf(time, "date") }, ...series.map(seriesOf)],
  };
  drawn.set(element, new window.uPlot(options, [times, ...series.map((one) => one.values)], element));
}

const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    drawn.get(target)?.setSize({ width: contentRect.width, height: Number(target.dataset.height) });
  }
});

export function drawAll(root = document) {
  for (const element of drawn.keys()) {
    if (!element.isConnected) drawn.delete(element);
  }
  for (const element of root.querySelectorAll("[data-chart]")) {
    draw(element);
    sizes.observe(element);
  }
}

drawAll();
document.addEventListener("htmx:load", (event) => drawAll(event.detail.elt.parentElement ?? document));
document.addEventListener("theme", () => drawAll());
