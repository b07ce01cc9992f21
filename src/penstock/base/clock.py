"""Time. Services get a `Clock`, the domain gets milliseconds; neither reads the system's time."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

Clock = Callable[[], int]
"""Returns the current time in milliseconds since 1970-01-01 UTC."""

_DIGITS = re.compile(r"-?[0-9]{1,18}")

LATEST_MS = 10_413_791_999_999
"""The last millisecond of 2299: the maximum of the warehouse's DateTime64."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


def iso(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`: how all responses spell a time."""
    return f"{_iso_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


@lru_cache(maxsize=1000)
def _iso_second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}"


def iso_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)


def parse_time(value: str | int) -> int:
    """Milliseconds since the epoch, from ISO 8601 with an offset or from epoch milliseconds.

    Digits below a millisecond are cut, as in the warehouse's columns. `ValueError` completes the
    sentence "This time ..." with the reason.
    """
    if isinstance(value, int):
        return value
    text = value.strip()
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is neither ISO 8601 with an offset nor epoch milliseconds") from None
    if parsed.tzinfo is None:
        raise ValueError("has no UTC offset; add Z or an offset such as +02:00")
    delta = parsed - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400_000) + delta.seconds * 1000 + delta.microseconds // 1000


FIRST_PLAUSIBLE_MS = 10**11
"""3 March 1973. A smaller number is more likely a time in seconds."""


def looks_like_seconds(value: Any) -> bool:
    """Whether a time was sent as a number so small that it is more likely seconds than ms."""
    if isinstance(value, str):
        text = value.strip()
        return bool(_DIGITS.fullmatch(text)) and int(text) < FIRST_PLAUSIBLE_MS
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value < FIRST_PLAUSIBLE_MS
