"""The lines of a small trend chart for a table cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.funnels.insights.schema import TrendBucketRecord

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
    rates = [bucket.conversion_rate for bucket in buckets]
    known = [rate for rate in rates if rate is not None]
    maturing = (index for index, bucket in enumerate(buckets) if bucket.maturing)
    turn = next(maturing, len(buckets)) if has_window else len(buckets)
    bounds = [
        bucket.final_rate.upper if bucket.final_rate and index >= turn else rate
        for index, (bucket, rate) in enumerate(zip(buckets, rates, strict=True))
    ]
    top = max((rate for rate in bounds if rate is not None), default=0) or 1
    intervals = max(len(buckets) - 1, 1)

    def points_of(rates: Sequence[float | None]) -> list[str | None]:
        return [
            None if rate is None else _point(index / intervals, rate / top)
            for index, rate in enumerate(rates)
        ]

    points, start = points_of(rates), max(turn - 1, 0)
    return Sparkline(
        settled=_lines(points[:turn]),
        maturing=_lines(points[start:]) if turn < len(buckets) else [],
        highest=_lines(points_of(bounds)[start:]) if turn < len(buckets) else [],
        first=known[0] if known else None,
        last=known[-1] if known else None,
    )


def _point(x: float, y: float) -> str:
    """Format a point of a polyline. x, y: 0 to 1, with y pointing up."""
    left = _MARGIN + x * (WIDTH - 2 * _MARGIN)
    top = HEIGHT - _MARGIN - y * (HEIGHT - 2 * _MARGIN)
    return f"{left:.1f},{top:.1f}"


def _lines(points: Sequence[str | None]) -> list[str]:
    """Return one line for each run of points without gaps. A single point is drawn as a dot."""
    runs: list[list[str]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [" ".join(run if len(run) > 1 else run * 2) for run in runs if run]
