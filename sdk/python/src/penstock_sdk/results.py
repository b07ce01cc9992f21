"""Results of a funnel, as a table for data tools and as bars in a notebook."""

from datetime import datetime
from html import escape
from importlib import import_module
from typing import Any, TypedDict

Columns = dict[str, list[Any]]
_FIGURES = {
    "count": "int64",
    "pending": "int64",
    "droppedOff": "int64",
    "excluded": "int64",
    "conversionFromStart": "float64",
    "conversionFromPrevious": "float64",
}
"""Figures of a step, and their types."""
_TEXTS = ("row", "step_name")


class ResultsQuery(TypedDict, total=False):
    """Query parameters. `start_at` is inclusive, `end_at` exclusive; `page_size` is at most 100.

    website_id: default: the client's website. None: all websites of the workspace.
    """

    start_at: datetime
    end_at: datetime
    website_id: str | None
    page: int
    page_size: int


class Results(dict[str, Any]):
    """The response of the server, with its fields as keys.

    A table has one row per step for the total, and one row per step for each cohort on the page.
    Its columns are `row` (`total` or `cohort`), the breakdown properties as text (null in the
    total), `step`, `step_name` and the figures of the step. A property with the name of another
    column gets the prefix `cohort_`.
    """

    def columns(self) -> Columns:
        """Return the table as lists, by column."""
        cohorts = self["cohorts"]["data"]
        properties = list(cohorts[0]["label"]) if cohorts else []
        own = ("row", "step", "step_name", *map(_snake, _FIGURES))
        names = {key: f"cohort_{key}" if key in own else key for key in properties}
        rows = [
            {
                "row": "total" if labels is None else "cohort",
                **{name: labels and _text(labels[key]) for key, name in names.items()},
                "step": step["step"],
                "step_name": step.get("name") or step["value"],
                **{_snake(figure): step[figure] for figure in _FIGURES},
            }
            for labels, part in (
                (None, self["aggregate"]),
                *((cohort["label"], cohort) for cohort in cohorts),
            )
            for step in part["steps"]
        ]
        order = ("row", *names.values(), *own[1:])
        return {name: [row[name] for row in rows] for name in order}

    def to_arrow(self) -> Any:
        """Return the table as a `pyarrow.Table`."""
        pa = _library("pyarrow", "to_arrow")
        columns, types = self.columns(), _types()
        fields = [(name, getattr(pa, types.get(name, "string"))()) for name in columns]
        return pa.table(columns, schema=pa.schema(fields))

    def to_polars(self) -> Any:
        """Return the table as a `polars.DataFrame`."""
        pl = _library("polars", "to_polars")
        columns, types = self.columns(), _types()
        names = {"int64": pl.Int64, "float64": pl.Float64, "string": pl.String}
        return pl.DataFrame(
            columns, schema={name: names[types.get(name, "string")] for name in columns}
        )

    def to_pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame`."""
        pd = _library("pandas", "to_pandas")
        types = {name: kind for name, kind in _types().items() if kind != "string"}
        return pd.DataFrame(self.columns()).astype(types)

    def _repr_html_(self) -> str:
        """Return the steps of the total as bars. Notebooks call this method."""
        steps = self["aggregate"]["steps"]
        entered = steps[0]["count"] if steps else 0
        rows = "".join(_bar(step, entered) for step in steps)
        rate = _percent(self["aggregate"]["conversionRate"])
        heads = "".join(f'<th scope="col" style="{_NUMBER}">{name}</th>' for name in _HEADS)
        notes = "".join(f"<div>{escape(note)}</div>" for note in self["coverage"]["notes"])
        return (
            f'<div style="overflow-x:auto"><table style="border-collapse:collapse">'
            f'<caption style="text-align:left;font-weight:bold">'
            f"{entered:,} entered, {rate} completed</caption>"
            f'<thead><tr><th scope="col" style="{_NAME}">Step</th><td></td>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>{notes}"
        )


# The colours are readable on light and dark pages, which a notebook does not tell apart.
_NUMBER = "text-align:right;white-space:nowrap;padding:.3em;font-variant-numeric:tabular-nums"
_NAME = "text-align:left;white-space:normal;overflow-wrap:break-word;max-width:20em;padding:.3em"
_TRACK = "min-width:4em;background:rgba(127,127,127,.2);border-radius:2px"
_HEADS = ("Reached", "Of entered", "Pending", "Dropped off")


def _bar(step: dict[str, Any], entered: int) -> str:
    share = 100 * step["count"] / entered if entered else 0
    bar = f"width:{share:.1f}%;height:1.1em;background:#4a7fd6;border-radius:2px"
    name = escape(str(step.get("name") or step["value"]))
    numbers = (
        f"{step['count']:,}",
        _percent(step["conversionFromStart"]),
        f"{step['pending']:,}",
        f"{step['droppedOff']:,}",
    )
    cells = "".join(f'<td style="{_NUMBER}">{number}</td>' for number in numbers)
    return (
        f'<tr><th scope="row" style="{_NAME};font-weight:normal">{step["step"]}. {name}</th>'
        f'<td style="width:20em;padding:.3em"><div style="{_TRACK}">'
        f'<div style="{bar}"></div></div></td>'
        f"{cells}</tr>"
    )


def _types() -> dict[str, str]:
    return {"step": "int64", **{_snake(name): kind for name, kind in _FIGURES.items()}}


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1%}"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _library(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{method}() needs {name}. Install it: pip install {name}") from error
