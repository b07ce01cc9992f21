"""A report as a plain table, for mails: as HTML without stylesheets, and as text."""

from markupsafe import Markup

from penstock.base.rates import percent
from penstock.shares.bars import (
    Bar,
    bars_of,
    change_in_points,
    period_words_of,
    rate_of,
    rate_words,
)
from penstock.shares.schema import SharedReportRecord

_CELL = "padding:4px 12px 4px 0;border-bottom:1px solid #d9dce1"
_GAP = "  "


def html_table(report: SharedReportRecord) -> Markup:
    """Return the steps of a report as an HTML table with a caption."""
    head, *rows = _rows(report)
    lines = [_line(head, "th"), *(_line(row, "td") for row in rows)]
    return Markup(
        '<table style="border-collapse:collapse"><caption style="text-align:left">{}</caption>{}'
        "</table>"
    ).format(_caption(report), Markup("").join(lines))


def text_table(report: SharedReportRecord) -> str:
    """Return the same table as lines of text, for a font whose characters have one width."""
    rows = _rows(report)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        _GAP.join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    return "\n".join([_caption(report), "", *lines]) + "\n"


def _caption(report: SharedReportRecord) -> str:
    return f"{report.name}, {period_words_of(report)}: {rate_words(report)}."


def _rows(report: SharedReportRecord) -> list[list[str]]:
    """Return the head and the rows of the table."""
    whole = "settled" if rate_of(report).of == "settled" else "entered"
    compares = report.earlier is not None
    head = ["Step", f"{whole.capitalize()} {report.unit}s", f"Of {whole}"]
    return [
        head + ["Change"] * compares,
        *(_row(number, bar, compares) for number, bar in enumerate(bars_of(report), start=1)),
    ]


def _row(number: int, bar: Bar, compares: bool) -> list[str]:
    share = "–" if bar.share is None else percent(bar.share)
    change = [change_in_points(bar.change)] * compares
    return [f"{number} {bar.title}", f"{bar.units:,}", share, *change]


def _line(row: list[str], element: str) -> Markup:
    cells = [
        Markup('<{e} style="{style};text-align:{side}">{text}</{e}>').format(
            e=element, style=_CELL, side="right" if column else "left", text=text
        )
        for column, text in enumerate(row)
    ]
    return Markup("<tr>{}</tr>").format(Markup("").join(cells))
