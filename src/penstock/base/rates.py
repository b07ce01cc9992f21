"""Shares and rates, and their texts."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

_TENTH = Decimal("0.1")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole. whole: greater than 0 wherever `rate` is read."""

    part: int
    whole: int

    @property
    def rate(self) -> float:
        return self.part / self.whole


def rate(part: int, whole: int) -> float | None:
    """Return part / whole, not rounded; None if whole is 0. Responses and texts round it, each
    once. Source: interface, rule 15.
    """
    return part / whole if whole else None


def round_rate(rate: float) -> float:
    """Round a rate, or a difference of two, to the four decimals of responses and files."""
    return round(rate, 4)


def percent(rate: float) -> str:
    """Return the text of a rate that has not been rounded before: `61.3%`."""
    return f"{points(rate)}%"


def level_words(level: float) -> str:
    """Return a level that people chose with the decimals that it has: `60%`, `61.25%`."""
    return f"{round(level * 100, 2):g}%"


def points(difference: float, *, signed: bool = False) -> str:
    """Return a difference of two rates in percentage points: `9.8` or `−9.8`. A half rounds away
    from 0, as in browsers.

    signed: whether a positive difference has a plus sign.
    """
    rounded = (Decimal(difference) * 100).quantize(_TENTH, ROUND_HALF_UP)
    if not rounded:
        return "0.0"  # without the sign of a small number
    return with_minus(f"{rounded:+}" if signed else str(rounded))


def with_minus(number: str) -> str:
    """Replace the hyphen of a formatted number with a minus sign, for people."""
    return number.replace("-", "\N{MINUS SIGN}")
