"""How far a long command is: bars at a terminal, a line now and then otherwise."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

_LINE_EVERY_S = 5.0


class Progress(Protocol):
    def at(self, what: str, done: int, total: int) -> None:
        """Show that so many bytes of what is going on are done."""


class _Bars:
    def __init__(self, bars: Bars) -> None:
        self._bars, self._tasks = bars, dict[str, TaskID]()

    def at(self, what: str, done: int, total: int) -> None:
        task = self._tasks.get(what)
        if task is None:
            task = self._tasks[what] = self._bars.add_task(what)
        self._bars.update(task, completed=done, total=total)


class _Lines:
    """One line for each thing's beginning and end, and every few seconds in between."""

    def __init__(self) -> None:
        self._what, self._next_s = "", 0.0

    def at(self, what: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        if what != self._what or now_s >= self._next_s or done == total:
            print(f"{what}: {done:,} of {total:,} bytes", file=sys.stderr, flush=True)
            self._what, self._next_s = what, now_s + _LINE_EVERY_S


@contextmanager
def progress() -> Iterator[Progress]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    with Bars(TextColumn("{task.description:<10}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console) as bars:
        yield _Bars(bars)
