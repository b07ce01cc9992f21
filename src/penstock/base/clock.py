"""Time. Services receive a `Clock` and the domain receives milliseconds. Neither reads the system
time.
"""

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from penstock.base.patterns import is_integer


class Clock(Protocol):
    """Reads the time of day, which an operator or NTP may correct, and a monotonic time."""

    def __call__(self) -> int:
        """The current time in milliseconds since 1970-01-01 UTC."""

    def elapsed_ms(self) -> int:
        """Milliseconds since an arbitrary moment. Unlike the time of day, this time never jumps.

        Use it for timeouts, pauses and all other durations.
        """


class SystemClock:
    def __call__(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


system_clock: Clock = SystemClock()

MS_PER_MINUTE = 60_000

LATEST_MS = 10_413_791_999_999
"""The last millisecond of 2299: the maximum of the warehouse's DateTime64."""


def iso(at_ms: int) -> str:
    """Format a time as ISO 8601 in UTC with milliseconds and `Z`, as in all responses."""
    return f"{_iso_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


@lru_cache(maxsize=1000)
def _iso_second(at_s: int) -> str:
    return (_EPOCH + timedelta(seconds=at_s)).isoformat()[:19]


def iso_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)


class TimeOutOfRange(ValueError):
    """The time is before the year 1 (`is_early`) or after 9999."""

    def __init__(self, *, is_early: bool) -> None:
        super().__init__("is not in the years 1 to 9999")
        self.is_early = is_early


def parse_time(value: Any, *, naive_is_utc: bool = False) -> int:
    """Parse ISO 8601 with an offset, or epoch milliseconds. Returns milliseconds since the epoch.

    All times from clients go through this parser. It drops digits below a millisecond, like the
    warehouse's columns. naive_is_utc: also accept a time without an offset, or a date, which means
    midnight. Raises `ValueError` with a reason that completes the sentence "This time ...", and
    `TimeOutOfRange` if `iso` cannot write the time.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_NOT_A_TIME)
    if isinstance(value, str):
        text = value.strip() if len(value) <= _MAX_TIME_CHARS else ""
        is_date = text[4:5] == "-"
        is_number = not is_date and is_integer(text)
        at_ms = int(text) if is_number else _parse_iso(text, naive_is_utc)
    elif isinstance(value, float) and not value.is_integer():
        raise ValueError(_NOT_A_TIME)
    else:
        at_ms = int(value)
    if not _FIRST_MS <= at_ms <= _LAST_MS:
        raise TimeOutOfRange(is_early=at_ms < 0)
    return at_ms


def _parse_iso(text: str, naive_is_utc: bool) -> int:
    if text.endswith(_UTC_SUFFIX):  # written by PostgreSQL and Ruby
        text = text.removesuffix(_UTC_SUFFIX) + "Z"
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_NOT_A_TIME) from None
    if parsed.tzinfo is None and not naive_is_utc:
        raise ValueError("has no UTC offset; add Z or an offset such as +02:00")
    # Do not use `astimezone`: applying the offset may give a year that a `datetime` cannot hold.
    return ((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_MAX_TIME_CHARS = 64
_UTC_SUFFIX = " UTC"
_NOT_A_TIME = "is neither ISO 8601 with an offset nor epoch milliseconds"

FIRST_PLAUSIBLE_MS = 10**11
"""3 March 1973 in milliseconds. A smaller number is more likely a time in seconds."""

_LAST_PLAUSIBLE_MS = 10**14
"""The year 5138 in milliseconds. A larger number is more likely a time in microseconds."""
_LAST_PLAUSIBLE_US = 10**17
"""The year 5138 in microseconds. A larger number, such as infinity, causes a different error."""


def looks_like_seconds(value: Any) -> bool:
    """Whether a time is a number so small that it is probably in seconds, not milliseconds.

    0 returns False, because it means 1970 in both units.
    """
    number = _number_of(value)
    return number is not None and 0 < number < FIRST_PLAUSIBLE_MS


def looks_like_microseconds(value: Any) -> bool:
    """Whether a time is a number so large that it is probably in microseconds, not milliseconds."""
    number = _number_of(value)
    return number is not None and _LAST_PLAUSIBLE_MS <= number < _LAST_PLAUSIBLE_US


def _number_of(value: Any) -> float | None:
    """Return the number if a time was sent as a number; None for any other format."""
    if isinstance(value, str):
        text = value.strip() if len(value) <= _MAX_TIME_CHARS else ""
        return int(text) if is_integer(text) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None
