"""Shares and rates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole. whole: greater than 0 wherever `rate` is read."""

    part: int
    whole: int

    @property
    def rate(self) -> float:
        return self.part / self.whole


def rate(part: int, whole: int) -> float | None:
    """Return part / whole, rounded to four decimals; None if whole is 0. Source: interface, rule
    15.
    """
    return round(part / whole, 4) if whole else None
