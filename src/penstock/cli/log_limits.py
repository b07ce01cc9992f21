"""Keeps lines of one kind from filling the log, no matter who causes them or how often."""

import logging
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import NamedTuple

import structlog

log = structlog.get_logger()

_WINDOW_S, _MAX_LINES = 10, 10
_MAX_KINDS = 1_000
_LEFT_OUT = "log_lines_left_out"
_SERIES = frozenset(
    (_LEFT_OUT, "event_store_migration", "metadata_database_migration", "page_paths")
)
"""Lines that may follow each other quickly, each with a different step."""


_Kind = tuple[str, int, str]
"""A line's logger, level, and event or text without values."""


class _Window(NamedTuple):
    """Lines of one kind since a time. passed, left_out: their numbers."""

    ends_at_s: float
    passed: int = 0
    left_out: int = 0


class LineLimiter(logging.Filter):
    """Passes at most ten lines of a kind in ten seconds from each logger. Thread-safe.

    The kind of a line is its event or, for a library, its text without values. The first line after
    the ten seconds, of whatever kind, is preceded by a line with the number of omitted lines.
    """

    def __init__(self, elapsed_s: Callable[[], float] = monotonic) -> None:
        """elapsed_s: a clock in seconds that is never set back."""
        super().__init__()
        self._elapsed_s = elapsed_s
        self._windows: dict[_Kind, _Window] = {}  # those that end first come first
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        event = record.msg["event"] if isinstance(record.msg, dict) else record.msg
        if event in _SERIES:
            return True
        with self._lock:
            ended = self._end_windows()
            passes = self._count((record.name, record.levelno, event))
        for (_, _, name), left_out in ended.items():
            log.warning(_LEFT_OUT, line=name, left_out=left_out)
        return passes

    def _count(self, kind: _Kind) -> bool:
        window = self._windows.get(kind) or _Window(self._elapsed_s() + _WINDOW_S)
        passes = window.passed < _MAX_LINES
        self._windows[kind] = (
            window._replace(passed=window.passed + 1)
            if passes
            else window._replace(left_out=window.left_out + 1)
        )
        return passes

    def _end_windows(self) -> dict[_Kind, int]:
        """Remove the windows that have ended. Returns the numbers of lines that they left out."""
        now_s, left_out = self._elapsed_s(), dict[_Kind, int]()
        for kind, window in list(self._windows.items()):
            if window.ends_at_s > now_s and len(self._windows) <= _MAX_KINDS:
                break
            del self._windows[kind]
            if window.left_out:
                left_out[kind] = window.left_out
        return left_out
