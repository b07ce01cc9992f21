"""Words for values, differences and intervals, and the summary of a comparison."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import json

from penstock.base.clock import parse_time
from penstock.base.rates import Share, percent, points
from penstock.base.scalar import Scalar
from penstock.funnels.comparisons.proportions import Comparison, Move, newcombe_interval
from penstock.funnels.queries.schema import PeriodRecord

_MAX_VALUE_CHARS = 60
_DAY_MS = 86_400_000
_CLOCK_CHANGE_MS = 3_600_000


def value_words(value: Scalar | None) -> str:
    """Return a value as text. Long values are truncated."""
    if value is None:
        return "Unknown"
    text = value if isinstance(value, str) else json.encode(value).decode()
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"


def _in_points(share: float) -> str:
    """Return a positive difference of two rates in percentage points."""
    text = points(share)
    return "1 point" if text == "1.0" else f"{text} points"


def interval_words(low: float, high: float) -> str:
    return f"95%: {points(low)} to {points(high)}"


class ChangeWords(NamedTuple):
    """The words for the change of a share: what changed, and from what."""

    change: str
    origin: str


def change_words(now: Share, before: Share, period: str) -> ChangeWords:
    """Return the change of a share: `3.1 points down`, ` from 65.0% in the 30 days before (95%:
    0.4 to 5.8)`.

    period: words for the earlier period, such as those of `period_words`.
    """
    low, high = newcombe_interval(now, before)
    origin = f" from {percent(before.rate)} {period}"
    if low <= 0 <= high:
        return ChangeWords("not clearly different", origin)
    bounds = (low, high) if low > 0 else (-high, -low)
    return ChangeWords(
        points_changed(now.rate - before.rate), f"{origin} ({interval_words(*bounds)})"
    )


def points_changed(difference: float) -> str:
    """Return a difference of two rates: `3.1 points down`."""
    return f"{_in_points(abs(difference))} {'up' if difference > 0 else 'down'}"


def move_words(name: str, value: Scalar | None, own: Move, rest: Move) -> str:
    """Return how the rate of one value moved, and that of all others: `plan = pro fell by 17.6
    points (95%: 10.8 to 24.3); the others are not clearly different`.
    """
    low, high = own.interval if own.difference > 0 else (-own.interval[1], -own.interval[0])
    others = f"{_moved(rest.difference)}" if rest.is_clear else "are not clearly different"
    return (
        f"{name} = {value_words(value)} {_moved(own.difference)} ({interval_words(low, high)}); "
        f"the others {others}"
    )


def _moved(difference: float) -> str:
    return f"{'rose' if difference > 0 else 'fell'} by {_in_points(abs(difference))}"


def period_words(period: PeriodRecord, earlier: PeriodRecord) -> str:
    """Return the words for an earlier period: `in the 30 days before` if it ends where the other
    begins.
    """
    if earlier.start_at is None or earlier.end_at is None or earlier.end_at != period.start_at:
        return "in the earlier period"
    length_ms = parse_time(earlier.end_at) - parse_time(earlier.start_at)
    days = round(length_ms / _DAY_MS)
    if not days or abs(length_ms - days * _DAY_MS) > _CLOCK_CHANGE_MS:
        return "in the period before"
    return "on the day before" if days == 1 else f"in the {days} days before"


def lead_words(
    name: str, value: Scalar | None, baseline: Scalar | None, comparison: Comparison
) -> str:
    """Return the difference of a value to the baseline: `plan = b converts 8.0 points better than
    a (95%: 4.1 to 12.0)`.
    """
    difference, (low, high) = comparison.difference, comparison.interval
    direction = "better" if difference >= 0 else "worse"
    if difference < 0:
        low, high = -high, -low
    return (
        f"{name} = {value_words(value)} converts {_in_points(abs(difference))} {direction} than "
        f"{value_words(baseline)} ({interval_words(low, high)})"
    )


def summary(
    name: str,
    baseline: Scalar | None,
    clear: Sequence[tuple[Scalar | None, Comparison]],
    tested: int,
    units: str,
) -> str:
    """Return the result of a comparison in a sentence or two.

    clear: values that differ clearly from the baseline. tested: number of values with enough units
    to be compared. units: plural of the units that were counted.
    """
    if not tested:
        return f"There are too few {units} to compare values of {name}."
    if not clear:
        values = "The other value does not differ"
        if tested > 1:
            values = f"None of the {tested} other values differs"
        return f"{values} clearly from {value_words(baseline)}."
    value, comparison = max(clear, key=lambda item: abs(item[1].difference))
    lead = f"{lead_words(name, value, baseline, comparison)}."
    others = len(clear) - 1
    if not others:
        return lead
    noun = "1 other value differs" if others == 1 else f"{others} other values differ"
    return f"{lead} {noun} clearly from {value_words(baseline)} as well."
