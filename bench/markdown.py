"""Formats results as Markdown."""

import textwrap
from collections.abc import Iterable, Iterator

from bench.model import Cell, Column, Table
from bench.results import PartResult

_WIDTH = 120


def page(results: Iterable[PartResult]) -> str:
    """Format the page with all parts, in the given order."""
    parts = list(results)
    lines = [
        "# Measurements",
        "",
        "What `make bench` measured, written from `results.json`. Compare times of one part with "
        "each other, not with another",
        "run. [How it is measured](README.md).",
        "",
        *_machines(parts),
    ]
    for part in parts:
        lines += _section(part)
    return "\n".join(lines).rstrip() + "\n"


def _machines(parts: list[PartResult]) -> Iterator[str]:
    if not parts:
        return
    newest = max(parts, key=lambda part: part.measured_at)
    yield "| | of the newest part |"
    yield "|---|---|"
    for name, value in newest.machine.items():
        yield f"| {name} | {value} |"
    yield ""


def _section(part: PartResult) -> Iterator[str]:
    size = ", a try with little data" if part.is_small else ""
    base = f" beside commit {part.base_commit}" if part.base_commit else ""
    yield f"## {part.part}"
    yield ""
    yield f"{part.measured_at}, commit {part.commit}{base}, {part.took_s:.0f} seconds{size}."
    yield ""
    for failure in part.failures:
        yield from _wrapped(f"**Failed:** {failure}")
    for table in part.tables:
        yield f"### {table.title}"
        yield ""
        if table.notes:
            yield from _wrapped(table.notes)
        yield from table_lines(table)
        for plot in table.plots:
            yield f"![{table.title}: {plot.y_label} by {plot.x}](plots/{plot.name}.svg)"
            yield ""


def table_lines(table: Table) -> Iterator[str]:
    yield _row(column.name for column in table.columns)
    rules = ("---" if column.digits is None else "---:" for column in table.columns)
    yield f"|{'|'.join(rules)}|"
    for row in table.rows:
        yield _row(_text(cell, column) for cell, column in zip(row, table.columns, strict=True))
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell, column: Column) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str) or column.digits is None:
        return str(cell)
    return f"{cell:,.{column.digits}f}"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""
