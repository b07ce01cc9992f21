"""The flow chart of a link: its clicks, and the installs that they led to, by match method."""

from dataclasses import dataclass

from penstock.links.attribution.model import Method
from penstock.links.statistics.schema import LinkStatisticsRecord

_ROW_HEIGHT, _WIDTH = 56.0, 100.0
_FULL_HEIGHT = 44.8
"""Combined thickness of all clicks, on both sides of the chart. It fits into a table row."""
_MIN_HEIGHT = 1.5


@dataclass(frozen=True, slots=True)
class Stream:
    """A share of the clicks. method: how their installs were matched; empty for no install.

    path: the path to draw in an SVG that is `_WIDTH` wide and as high as the flow.
    """

    method: str
    installs: int
    opens: int
    path: str


@dataclass(frozen=True, slots=True)
class Flow:
    """The streams in a chart.

    streams: add up to the clicks, unless some installs belong to clicks before the period.
    direct_installs, direct_opens: app opens from the link's address, without a click. height:
    height of the chart.
    """

    streams: list[Stream]
    height: float
    unmatched: int
    has_earlier_clicks: bool
    direct_installs: int
    direct_opens: int


def flow_of(stats: LinkStatisticsRecord) -> Flow:
    """Draw a link's flow. At both ends, a stream is as thick as its share of the clicks."""
    installs, opens = stats.installs_by_method, stats.opens_by_method
    amounts = [
        (str(method), installs.get(method, 0))
        for method in Method
        if method is not Method.URL and (method in installs or method in opens)
    ]
    matched = sum(amount for _, amount in amounts)
    unmatched = max(stats.totals.clicks - matched, 0)
    amounts.append(("", unmatched))
    total, height = max(matched + unmatched, 1), _ROW_HEIGHT * len(amounts)
    streams, top = [], (height - _FULL_HEIGHT) / 2
    for row, (method, amount) in enumerate(amounts):
        thickness = _FULL_HEIGHT * amount / total
        path = _ribbon(top, _ROW_HEIGHT * (row + 0.5), thickness) if amount else ""
        streams.append(Stream(method, amount if method else 0, opens.get(method, 0), path))
        top += thickness
    return Flow(
        streams=streams,
        height=height,
        unmatched=unmatched,
        has_earlier_clicks=matched > stats.totals.clicks,
        direct_installs=installs.get(Method.URL, 0),
        direct_opens=opens.get(Method.URL, 0),
    )


def _ribbon(left_top: float, right_middle: float, thickness: float) -> str:
    """Return the path of a band that starts below `left_top` on the left and ends around
    `right_middle`.
    """
    thickness, half = max(thickness, _MIN_HEIGHT), _WIDTH / 2
    left_bottom = left_top + thickness
    right_top, right_bottom = right_middle - thickness / 2, right_middle + thickness / 2
    return (
        f"M0 {left_top:.2f}C{half:g} {left_top:.2f} {half:g} {right_top:.2f} {_WIDTH:g} "
        f"{right_top:.2f}L{_WIDTH:g} {right_bottom:.2f}C{half:g} {right_bottom:.2f} {half:g} "
        f"{left_bottom:.2f} 0 {left_bottom:.2f}Z"
    )
