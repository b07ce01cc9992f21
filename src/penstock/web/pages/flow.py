"""The map of a link's clicks to installs: a stream for each way in which installs were matched, and one for clicks without an install."""

from dataclasses import dataclass

from penstock.links.resolving import Method
from penstock.links.stats_schema import LinkStatsRecord

_ROW, _WIDTH, _FILLED, _LEAST = 56.0, 100.0, 0.8, 1.5


@dataclass(frozen=True, slots=True)
class Stream:
    """method: empty for clicks without an install. path: of an SVG that is 100 wide and as high as its flow."""

    method: str
    installs: int
    opens: int
    path: str


@dataclass(frozen=True, slots=True)
class Flow:
    """height: of the drawing. without: clicks that have no install."""

    streams: list[Stream]
    height: float
    without: int


def flow_of(stats: LinkStatsRecord) -> Flow:
    """Thickness is the share of clicks; of installs, where these are more, for an app that is opened by its address has no click."""
    installs = stats.installs_by_method
    without = max(stats.totals.clicks - stats.totals.installs, 0)
    amounts = [(str(method), installs.get(method, 0)) for method in Method if method in installs or method in stats.opens_by_method]
    amounts.append(("", without))
    whole, height = max(sum(amount for _, amount in amounts), 1), _ROW * len(amounts)
    streams, top = [], 0.0
    for row, (method, amount) in enumerate(amounts):
        share = amount / whole
        path = _ribbon(top, share * height, _ROW * (row + 0.5), share * _ROW * _FILLED) if amount else ""
        streams.append(Stream(method, amount if method else 0, stats.opens_by_method.get(method, 0), path))
        top += share * height
    return Flow(streams, height, without)


def _ribbon(top: float, left: float, middle: float, right: float) -> str:
    """From `left` high below `top` to `right` high around `middle`."""
    right, left, half = max(right, _LEAST), max(left, _LEAST), _WIDTH / 2
    up, down, bottom = middle - right / 2, middle + right / 2, top + left
    return (
        f"M0 {top:.2f}C{half:g} {top:.2f} {half:g} {up:.2f} {_WIDTH:g} {up:.2f}"
        f"L{_WIDTH:g} {down:.2f}C{half:g} {down:.2f} {half:g} {bottom:.2f} 0 {bottom:.2f}Z"
    )
