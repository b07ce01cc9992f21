"""Draws results as SVG files. Equal figures produce identical files."""

from collections.abc import Iterable, Mapping
from math import floor, log10
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from bench.model import Cell, Plot, Table
from bench.results import PartResult

_SIZE_INCHES = (8.0, 4.5)
_MARKERS = "osD^vP*X"
_STYLE: Any = {
    "svg.hashsalt": "penstock",  # for the IDs of SVG elements
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
}

Series = Mapping[str, list[tuple[Cell, float]]]


def draw_all(results: Iterable[PartResult], folder: Path) -> None:
    """Draw every plot of every table into a folder."""
    folder.mkdir(exist_ok=True)
    for result in results:
        for table in result.tables:
            for plot in table.plots:
                draw(table, plot, folder / f"{plot.name}.svg")


def draw(table: Table, plot: Plot, file: Path) -> None:
    with mpl.rc_context(_STYLE):
        figure = Figure(_SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        series = _series(table, plot)
        if plot.kind == "lines":
            _lines(axes, series)
        else:
            index = [column.name for column in table.columns].index(plot.x)
            _bars(axes, series, list(dict.fromkeys(row[index] for row in table.rows)))
        axes.set_title(table.title)
        axes.set_xlabel(plot.x)
        axes.set_ylabel(plot.y_label)
        _scale(axes, plot, series)
        if len(series) > 1:
            figure.legend(loc="outside lower center", ncols=min(2, len(series)), frameon=False)
        figure.savefig(file, metadata={"Date": None})


def _series(table: Table, plot: Plot) -> Series:
    """Return the points of each line, or the bars of each colour, without empty cells."""
    position = {column.name: index for index, column in enumerate(table.columns)}
    series: dict[str, list[tuple[Cell, float]]] = {}
    for row in table.rows:
        for y in plot.y:
            value = row[position[y]]
            if value is not None:
                name = str(row[position[plot.series]]) if plot.series else y
                series.setdefault(name, []).append((row[position[plot.x]], float(value)))
    return series


def _lines(axes: Axes, series: Series) -> None:
    axes.set_xticks(sorted({float(x) for points in series.values() for x, _ in points if x}))
    for (name, points), marker in zip(series.items(), _MARKERS, strict=False):
        xs = [float(x) for x, _ in points if x is not None]
        axes.plot(xs, [y for _, y in points], marker=marker, label=name.replace("`", ""))


def _bars(axes: Axes, series: Series, groups: list[Cell]) -> None:
    width = 0.8 / len(series)
    for number, (name, points) in enumerate(series.items()):
        at = [groups.index(x) + (number - (len(series) - 1) / 2) * width for x, _ in points]
        bars = axes.bar(at, [y for _, y in points], width, label=name.replace("`", ""))
        axes.bar_label(bars, fmt=_short, padding=2, fontsize=8)
    axes.set_xticks(range(len(groups)), [_label(group) for group in groups])
    axes.grid(axis="x", visible=False)


def _scale(axes: Axes, plot: Plot, series: Series) -> None:
    numbers = FuncFormatter(lambda value, _: _short(value))
    if plot.x_log:
        ticks = axes.get_xticks()
        axes.set_xscale("log")
        axes.set_xticks(ticks)
        axes.xaxis.set_minor_locator(NullLocator())
    if plot.kind == "lines":
        axes.xaxis.set_major_formatter(numbers)
    if plot.y_log:
        values = [value for points in series.values() for _, value in points if value > 0]
        axes.set_yscale("log")
        axes.set_ylim(bottom=10 ** floor(log10(min(values, default=1))))
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(numbers)
    axes.yaxis.set_minor_formatter(NullFormatter())


def _label(group: Cell) -> str:
    text = group if isinstance(group, str) else _short(float(group or 0))
    return text.replace("`", "").replace(", ", ",\n")


def _short(value: float) -> str:
    """Format a number for an axis."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"
