"""Stores results in a JSON file, from which the Markdown page and the plots are made."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.model import Column, Plot, Table

_FILE = "results.json"


@dataclass(frozen=True)
class PartResult:
    """The result of one part. failures: messages about failed measurements.

    measured_at: time in UTC. machine: facts by name. took_s: seconds.
    """

    part: str
    measured_at: str
    commit: str
    base_commit: str | None
    machine: dict[str, str]
    took_s: float
    is_small: bool
    tables: list[Table]
    failures: list[str]


def load(folder: Path) -> dict[str, PartResult]:
    """Return the last result of each part; an empty dict if there is none yet."""
    file = folder / _FILE
    if not file.exists():
        return {}
    return {fields["part"]: _result(fields) for fields in json.loads(file.read_text("utf-8"))}


def save(folder: Path, results: dict[str, PartResult]) -> None:
    content = json.dumps([asdict(result) for result in results.values()], indent=1)
    (folder / _FILE).write_text(content + "\n", "utf-8")


def _result(fields: dict[str, Any]) -> PartResult:
    tables = [
        Table(
            title,
            tuple(Column(*column) for column in columns),
            rows,
            notes,
            tuple(Plot(name, kind, x, tuple(y), *more) for name, kind, x, y, *more in plots),
        )
        for title, columns, rows, notes, plots in fields["tables"]
    ]
    return PartResult(**{**fields, "tables": tables})
