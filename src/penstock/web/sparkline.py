"""A trend so small that it stands in a table's cell: the points of its lines, for a template to draw."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.funnels.insights.schema import TrendBucketRecord

WIDTH, HEIGHT, _MARGIN = 120, 32, 2


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The conversion rate by the time of entry, upwards from 0. settled, maturing: `points` of SVG polylines in a box of WIDTH by HEIGHT.

    Units of the maturing end may still complete, so its rate will rise. first, last: rates, None where nobody entered at all.
    """

    settled: Sequence[str]
    maturing: Sequence[str]
    first: float | None
    last: float | None
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(buckets: Sequence[TrendBucketRecord]) -> Sparkline:
    rates = [bucket.conversion_rate for bucket in buckets]
    known = [rate for rate in rates if rate is not None]
    most, steps = max(known, default=0) or 1, max(len(buckets) - 1, 1)
    points = [None if rate is None else _point(at / steps, rate / most) for at, rate in enumerate(rates)]
    turn = next((at for at, bucket in enumerate(buckets) if bucket.maturing), len(buckets))
    return Sparkline(
        settled=_lines(points[:turn]),
        maturing=_lines(points[max(turn - 1, 0) :]) if turn < len(buckets) else [],
        first=known[0] if known else None,
        last=known[-1] if known else None,
    )


def _point(x: float, y: float) -> str:
    """x, y: from 0 to 1, y upwards."""
    return f"{_MARGIN + x * (WIDTH - 2 * _MARGIN):.1f},{HEIGHT - _MARGIN - y * (HEIGHT - 2 * _MARGIN):.1f}"


def _lines(points: Sequence[str | None]) -> list[str]:
    """One line for each run without a gap; a point alone is a line to itself, which round ends show as a dot."""
    runs: list[list[str]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [" ".join(run if len(run) > 1 else run * 2) for run in runs if run]
