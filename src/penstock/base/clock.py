"""Time is passed in: services take a `Clock`, the domain takes milliseconds."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

Clock = Callable[[], int]
"""Returns the current time in milliseconds since 1970-01-01 UTC."""

_DIGITS = re.compile(r"-?[0-9]{1,18}")

LATEST_MS = 10_413_791_999_999
"""The last millisecond of 2299, which is how far the engine's times reach."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


def iso(at_ms: int) -> str:
    """ISO 8601 UTC with milliseconds and `Z`, the one spelling of a time on the way out."""
    return f"{_iso_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


@lru_cache(maxsize=1000)
def _iso_second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}"


def iso_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)


def parse_time(value: str | int) -> int:
    """Milliseconds of an ISO 8601 time with an offset, or of epoch milliseconds. ValueError names what is wrong.

    Digits below a millisecond are cut, as the engine's millisecond columns do.
    """
    if isinstance(value, int):
        return value
    text = value.strip()
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is neither an ISO 8601 time with an offset nor epoch milliseconds") from None
    if moment.tzinfo is None:
        raise ValueError("has no offset; write Z or +00:00 for UTC")
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400_000) + delta.seconds * 1000 + delta.microseconds // 1000
