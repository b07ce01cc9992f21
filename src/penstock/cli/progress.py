"""Progress of a long command: bars on a terminal, otherwise a line every few seconds."""

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
    def update(self, phase: str, done: int, total: int) -> None:
        """Show that `done` of `total` bytes of a phase are processed."""


class _Bars:
    def __init__(self, bars: Bars) -> None:
        self._bars, self._tasks = bars, dict[str, TaskID]()

    def update(self, phase: str, done: int, total: int) -> None:
        task = self._tasks.get(phase)
        if task is None:
            task = self._tasks[phase] = self._bars.add_task(phase)
        self._bars.update(task, completed=done, total=total)


class _Lines:
    """A line at the start and end of each phase, and every few seconds in between."""

    def __init__(self) -> None:
        self._phase, self._next_s = "", 0.0

    def update(self, phase: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        if phase != self._phase or now_s >= self._next_s or done == total:
            print(f"{phase}: {done:,} of {total:,} bytes", file=sys.stderr, flush=True)
            self._phase, self._next_s = phase, now_s + _LINE_EVERY_S


@contextmanager
def progress() -> Iterator[Progress]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    with Bars(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bars:
        yield _Bars(bars)
