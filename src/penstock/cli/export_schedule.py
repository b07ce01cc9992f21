"""Repeats an export at an interval, for `penstock export --every`."""

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

import typer

from penstock.base.wording import count_of
from penstock.cli.options import WRONG_USE, fail, warn

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_INTERVAL_S = 366 * 86400
_FIRST_PAUSE_S = 60
"""Time until the next attempt after a failure, in seconds. It doubles with each further failure."""
_MAX_PAUSE_S = 3600


def interval_s(text: str) -> int:
    """Parse an interval such as 24h. Returns seconds."""
    number, unit = text[:-1], text[-1:]
    if not (number.isdecimal() and number.isascii() and len(number) <= 6 and unit in _UNITS_S):
        fail("--every: Write a number and s, m, h or d, such as 24h.", WRONG_USE)
    if not 0 < int(number) * _UNITS_S[unit] <= _MAX_INTERVAL_S:
        fail("--every: Must be from 1s to 366d.", WRONG_USE)
    return int(number) * _UNITS_S[unit]


def repeat(
    run: Callable[[], None],
    every_s: int,
    *,
    elapsed_s: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Run at once and then at an interval, until the process is told to stop.

    After a failure, it tries again with a growing pause. Wrong usage ends it. elapsed_s: a clock in
    seconds. wait: sleeps for a number of seconds.
    """
    pause_s = 0
    while True:
        begin_s = elapsed_s()
        try:
            run()
        except typer.Exit as error:
            if error.exit_code == WRONG_USE:
                raise
            pause_s = min(max(_FIRST_PAUSE_S, 2 * pause_s), _MAX_PAUSE_S, every_s)
            warn(f"trying again in {count_of(pause_s, 'second')}")
            wait(pause_s)
        else:
            pause_s = 0
            wait(max(0.0, begin_s + every_s - elapsed_s()))


def exit_on_signals() -> None:
    """Let SIGTERM and SIGINT end the process with 0. An interrupted export continues next time."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
