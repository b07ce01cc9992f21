"""Lengths of conversion windows. No I/O."""

from collections.abc import Mapping
from typing import Literal

WindowUnit = Literal["minute", "hour", "day"]
UNIT_S: Mapping[WindowUnit, int] = {"minute": 60, "hour": 3600, "day": 86_400}
MAX_WINDOW_S = 366 * 86_400


def window_in_words(value: int, unit: str) -> str:
    """Return a length in words: `1 hour`, `45 days`."""
    return f"{value:,} {unit}{'' if value == 1 else 's'}"
