"""The lines of a small trend chart for a table cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.funnels.trends import TrendBucketRecord
from penstock.web.pages.charts import Rates, rate_lines

WIDTH, HEIGHT, _MARGIN = 120, 32, 2


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The conversion rate by time of entry. The axis starts at 0.

    settled, maturing, highest: `points` of SVG polylines in a box of WIDTH by HEIGHT. Maturing
    rates may still rise to the highest ones, because some units are pending. first, last: rates;
    None if there are no entries.
    """

    settled: Sequence[str]
    maturing: Sequence[str]
    highest: Sequence[str]
    first: float | None
    last: float | None
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(buckets: Sequence[TrendBucketRecord], *, has_window: bool = True) -> Sparkline:
    """Draw the lines.

    has_window: without a conversion window every rate may still rise, so the line is not split.
    """
    lines = rate_lines(buckets, has_window=has_window)
    rates = [bucket.conversion_rate for bucket in buckets]
    known = [rate for rate in rates if rate is not None]
    bounds = (rate for rate in (*lines.settled, *lines.highest) if rate is not None)
    top = max(bounds, default=0) or 1
    return Sparkline(
        settled=_polylines(lines.settled, top),
        maturing=_polylines(lines.lowest, top),
        highest=_polylines(lines.highest, top),
        first=known[0] if known else None,
        last=known[-1] if known else None,
    )


def _point(x: float, y: float) -> str:
    """Format a point of a polyline. x, y: 0 to 1, with y pointing up."""
    left = _MARGIN + x * (WIDTH - 2 * _MARGIN)
    top = HEIGHT - _MARGIN - y * (HEIGHT - 2 * _MARGIN)
    return f"{left:.1f},{top:.1f}"


def _polylines(rates: Rates, top: float) -> list[str]:
    """Return one line for each run of rates without gaps. A single rate is drawn as a dot."""
    runs: list[list[str]] = [[]]
    intervals = max(len(rates) - 1, 1)
    for index, rate in enumerate(rates):
        if rate is None:
            runs.append([])
        else:
            runs[-1].append(_point(index / intervals, rate / top))
    return [" ".join(run if len(run) > 1 else run * 2) for run in runs if run]
