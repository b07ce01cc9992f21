"""Input for `static/charts.js`, which draws every chart over time, large or small."""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.base.clock import parse_time
from penstock.funnels.shown_forecasts import ShownForecast
from penstock.funnels.trends import TrendBucketRecord

Series = dict[str, Any]


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


def rates(
    buckets: Sequence[TrendBucketRecord], label: str, *, has_window: bool = True, **look: str
) -> Series:
    """Return conversion rates by time of entry, or those between two steps: a line, then a band.

    The line ends at the last bucket before the first open one. From there, the band spans the least
    and the most that each rate can still become. has_window: without a conversion window, every
    rate may still rise, so all belong to the line. look: `colour` and `line` of the line.
    """
    parts = [bucket.between or bucket for bucket in buckets]
    settled = [part.settled_rate if has_window else part.conversion_rate for part in parts]
    series: Series = {"label": label, "values": settled, "style": "percent", **look}
    opens = (index for index, bucket in enumerate(buckets) if bucket.maturing)
    first_open = next(opens, None) if has_window else None
    if first_open is None:
        return series
    finals = [part.final_rate for part in parts[first_open:]]
    unknown = [None] * len(finals)
    before: list[float | None] = [None] * first_open
    before[-1:] = settled[first_open - 1 : first_open]
    return series | {
        "values": [*settled[:first_open], *unknown],
        "least": [*before, *(final and final.lower for final in finals)],
        "most": [*before, *(final and final.upper for final in finals)],
    }


def forecast_series(forecasts: Sequence[ShownForecast | None]) -> list[Series]:
    """Return a line of forecasts with a band of their intervals, if there is any forecast."""
    if not any(forecasts):
        return []
    parts = {"values": "rate", "least": "low", "most": "high"}
    lines = {
        name: [each and getattr(each, field) for each in forecasts] for name, field in parts.items()
    }
    look = {"style": "percent", "colour": "series-1", "line": "dashed"}
    return [{"label": "Forecast", **lines, **look}]


def earlier_rates(buckets: Sequence[TrendBucketRecord], label: str) -> Series:
    """Return the settled rates of an earlier period, for the chart of a later one.

    buckets: its first bucket belongs to the first one of the later period, and so on.
    """
    values = [None if bucket.maturing else bucket.conversion_rate for bucket in buckets]
    look = {"colour": "soft", "line": "dashed"}
    return {"label": label, "values": values, "style": "percent", **look}
