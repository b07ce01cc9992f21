"""Input for `static/charts.js`, and the lines of conversion rates that charts show."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.base.clock import parse_time
from penstock.funnels.trends import TrendBucketRecord

Series = dict[str, Any]
Rates = Sequence[float | None]


def chart(
    times: Iterable[str], zone: str, axes: tuple[str, str], series: Sequence[Series]
) -> dict[str, Any]:
    """Return a chart. times: starts of its buckets. axes: titles of the x and the y axis."""
    return {
        "times": [parse_time(time) // 1000 for time in times],
        "zone": zone,
        "axes": {"x": axes[0], "y": axes[1]},
        "series": series,
    }


def counts(label: str, values: Sequence[int]) -> Series:
    """Return a line of counts."""
    return {"label": label, "values": values, "style": "number"}


class RateLines(NamedTuple):
    """Conversion rates by time of entry, in lines with a value or None for each bucket.

    lowest, highest: the rates that open buckets can still reach. Both begin where `settled` ends;
    they are empty if no bucket is open.
    """

    settled: Rates
    lowest: Rates
    highest: Rates


def rate_lines(buckets: Sequence[TrendBucketRecord], *, has_window: bool = True) -> RateLines:
    """Split the rates. has_window: without a conversion window, every rate may still rise, so all
    belong to the first line.
    """
    rates = [bucket.conversion_rate for bucket in buckets]
    open_buckets = (index for index, bucket in enumerate(buckets) if bucket.maturing)
    first_open = next(open_buckets, len(buckets)) if has_window else len(buckets)
    if first_open == len(buckets):
        return RateLines(rates, (), ())
    highest = [
        bucket.final_rate.upper if bucket.final_rate else bucket.conversion_rate
        for bucket in buckets[first_open:]
    ]
    lowest = [
        bucket.final_rate.lower if bucket.final_rate else bucket.conversion_rate
        for bucket in buckets[first_open:]
    ]
    last_settled = max(first_open - 1, 0)
    before, shared = [None] * last_settled, rates[last_settled:first_open]
    return RateLines(
        settled=[*rates[:first_open], *([None] * len(highest))],
        lowest=[*before, *shared, *lowest],
        highest=[*before, *shared, *highest],
    )


def rate_series(lines: RateLines, labels: tuple[str, str, str], colour: str) -> list[Series]:
    """Return the lines of a chart: settled rates, and broken lines with the lowest rates, dashed,
    and the highest, dotted.
    """
    kinds: tuple[Series, ...] = ({}, {"line": "dashed"}, {"line": "dotted"})
    return [
        {"label": label, "values": values, "style": "percent", "colour": colour, **kind}
        for label, values, kind in zip(labels, lines, kinds, strict=True)
        if values or not kind
    ]
