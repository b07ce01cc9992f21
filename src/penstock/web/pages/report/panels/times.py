"""The times between two steps, as percentiles and a histogram."""

from typing import Any, NamedTuple

from penstock.funnels.questions import TIMING
from penstock.funnels.timing import EQUAL_BINS, DurationsRecord
from penstock.web.pages.report.panels.context import ReportContext

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_BIN_LENGTHS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365)),
)
_MEDIANS = 3
"""A few very long times, beyond this multiple of the median, do not make the bins longer."""


class Bin(NamedTuple):
    """A bin of the histogram. to_s: None for the last bin. share: share of all units, 0 to 1."""

    from_s: float
    to_s: float | None
    units: int
    share: float
    share_of_largest: float


def times(context: ReportContext) -> dict[str, Any]:
    """The times between the two steps that the reader chose, or between the first and last."""
    n = len(context.page.required_steps)
    pair = context.pair
    more: dict[str, Any] = {} if pair is None else {"from": pair[0], "to": pair[1]}
    timing = context.ask(TIMING, more)
    length_s = _bin_length_s(timing.pair or timing.overall)
    more["binSeconds"] = length_s
    timing = context.ask(TIMING, more)
    durations = timing.pair or timing.overall
    return {
        "durations": durations,
        "bins": _bins(durations),
        "bin_length_s": length_s,
        "pair": pair or (1, n),
        "more": more,
    }


def _bin_length_s(durations: DurationsRecord) -> int:
    """Return a round length, with which nine of ten times have a bin with an end."""
    p90, median = durations.p90_minutes, durations.median_minutes
    if p90 is None or median is None:
        return _BIN_LENGTHS_S[0]
    longest_s = min(p90, _MEDIANS * median) * _MINUTE
    fitting = (length for length in _BIN_LENGTHS_S if longest_s < length * EQUAL_BINS)
    return next(fitting, _BIN_LENGTHS_S[-1])


def _bins(durations: DurationsRecord) -> list[Bin]:
    largest = max((part.units for part in durations.histogram), default=0)
    return [
        Bin(
            part.from_minutes * 60,
            None if part.to_minutes is None else part.to_minutes * 60,
            part.units,
            part.units / durations.units,
            part.units / largest,
        )
        for part in durations.histogram
    ]
