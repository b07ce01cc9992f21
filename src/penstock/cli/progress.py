"""Shows progress of a long command: bars on a terminal, otherwise a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_LINE_EVERY_S = 5.0


class Progress(Protocol):
    def update(self, phase: str, done: int, total: int) -> None:
        """Report that `done` of `total` units of a phase have been processed."""


class _Bars:
    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def update(self, phase: str, done: int, total: int) -> None:
        task = self._tasks.get(phase)
        if task is None:
            task = self._tasks[phase] = self._bars.add_task(phase)
        self._bars.update(task, completed=done, total=total)


class _Lines:
    """Prints a line at the start and end of each phase, and every few seconds in between."""

    def __init__(self, unit: str) -> None:
        self._unit, self._phase, self._done, self._next_s = unit, "", -1, 0.0

    def update(self, phase: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        ends = done == total and done != self._done
        if phase != self._phase or now_s >= self._next_s or ends:
            print(f"{phase}: {done:,} of {total:,} {self._unit}", file=sys.stderr, flush=True)
            self._phase, self._done, self._next_s = phase, done, now_s + _LINE_EVERY_S


@contextmanager
def progress(unit: str = "bytes") -> Iterator[Progress]:
    """Show progress during the context. unit: the counted things, in the plural."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(unit)
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    with Bars(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        DownloadColumn() if unit == "bytes" else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bars:
        yield _Bars(bars)


@contextmanager
def every_few_seconds(
    show: Callable[[int], None], interval_s: float = _LINE_EVERY_S
) -> Iterator[None]:
    """Show that work of unknown duration continues. show: called with the seconds so far."""
    begin_s, is_over = time.monotonic(), Event()

    def repeat() -> None:
        while not is_over.wait(interval_s):
            show(round(time.monotonic() - begin_s))

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def still_running(what: str) -> Callable[[int], None]:
    """Return a function that prints a line such as `Copying: 10 s` to stderr."""
    return lambda seconds: print(f"{what}: {seconds} s", file=sys.stderr, flush=True)
