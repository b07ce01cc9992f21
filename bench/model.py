"""Types for the input and results of the benchmark's parts."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

Result = TypeVar("Result")

Cell = str | float | int | None
"""A cell of a table. None means that it was not measured."""


class Column(NamedTuple):
    """A column of a table. digits: number of decimals; None for text."""

    name: str
    digits: int | None = None


class Plot(NamedTuple):
    """A plot of a table. x, y: column names. Each `y` is a line, or a bar in each group.

    series: a text column; each of its values becomes a line. name: file name without suffix.
    """

    name: str
    kind: Literal["lines", "bars"]
    x: str
    y: tuple[str, ...]
    y_label: str
    series: str | None = None
    x_log: bool = False
    y_log: bool = False


class Table(NamedTuple):
    """Measured rows. notes: how to read them, in Markdown."""

    title: str
    columns: tuple[Column, ...]
    rows: list[list[Cell]]
    notes: str = ""
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True)
class Bench:
    """One run. folder: data that parts share, deleted afterwards. small: whether it is a trial.

    base: checkout of an older commit, which is also measured if a target is a ratio to that commit.
    """

    folder: Path
    small: bool = False
    base: Path | None = None
    started_s: float = field(default_factory=time.monotonic)
    failures: list[str] = field(default_factory=list)

    def attempt(self, name: str, measure: Callable[[], Result]) -> Result | None:
        """Run an optional measurement. If it fails, records the failure and returns None."""
        self.progress(name)
        try:
            return measure()
        except Exception as error:
            self.failures.append(f"{name}: {error}")
            self.progress(self.failures[-1])
            return None

    def progress(self, text: str) -> None:
        print(f"{time.monotonic() - self.started_s:7.0f} s  {text}", file=sys.stderr, flush=True)

    def rounds(self, rounds: int) -> int:
        return 1 if self.small else rounds

    def events(self, events: int) -> int:
        """Return the number of events for this run: a hundredth in a trial."""
        return events // 100 if self.small else events
