"""The axis of a chart of intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

_MAX_TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps rates to positions on a chart, 0 to 1. ticks: rates to label, in ascending order."""

    low: float
    high: float
    ticks: Sequence[float]

    def position(self, rate: float) -> float:
        return min(1.0, max(0.0, (rate - self.low) / (self.high - self.low)))


def scale_of(
    intervals: Sequence[tuple[float, float]], *, zero: bool = False, ticks: int = _MAX_TICKS
) -> Scale:
    """Return a scale that covers every interval and starts and ends at a tick.

    zero: whether the scale also covers 0. ticks: about how many ticks it has; more ticks leave less
    space at its ends.
    """
    low = min((low for low, _ in intervals), default=0.0)
    high = max((high for _, high in intervals), default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    step = _step(max(high - low, 0.01) / (ticks - 1))
    first, last = floor(low / step), ceil(high / step)
    values = [round(number * step, 6) for number in range(first, max(last, first + 1) + 1)]
    return Scale(values[0], values[-1], values)


def _step(least: float) -> float:
    """Return the smallest round number that is at least `least`."""
    power = 10.0 ** floor(log10(least))
    return next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))
