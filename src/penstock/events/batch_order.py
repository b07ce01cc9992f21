"""Times for events that were sent in one batch without timestamps, in the order of the batch.

The i-th of a visitor's k events has the time of receipt - (k - i) ms, but not an earlier time than
the visitor's previous event on this node. Where that leaves no room, times are equal.

Events with a number in their properties may have sequence numbers, which prove an order only at
equal times. So these events share the time of the last of them, and so do the events between them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from penstock.base.ids import ScopeId, VisitorId
from penstock.events.model import NewEvent
from penstock.identity.model import Alias

VisitorKey = tuple[ScopeId, VisitorId]

_REMEMBERED_MS = 2_000
"""Minimum time for which visitors' times are known. A batch of 1,000 events needs a second."""


class VisitorTimes:
    """The times of visitors' latest events in the last seconds. Not thread-safe."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._recent, self._earlier = dict[VisitorKey, int](), dict[VisitorKey, int]()

    def latest(self, visitor: VisitorKey) -> int:
        """Return the time of the visitor's latest event, in milliseconds; 0 if unknown."""
        return max(self._recent.get(visitor, 0), self._earlier.get(visitor, 0))

    def remember(self, times: Mapping[VisitorKey, int], now_ms: int) -> None:
        if not 0 <= now_ms - self._since_ms < _REMEMBERED_MS:
            self._earlier, self._recent, self._since_ms = self._recent, {}, now_ms
        for visitor, at_ms in times.items():
            self._recent[visitor] = max(at_ms, self._recent.get(visitor, 0))


def order_batches(
    events: dict[int, NewEvent],
    visitors: Mapping[int, VisitorKey],
    aliases: Sequence[Alias],
    known: VisitorTimes,
) -> dict[VisitorKey, int]:
    """Set the times of events without timestamps, in place. Returns each visitor's latest time.

    events: by index. visitors: canonical visitors of the new events, by index, in order. aliases:
    merges that these events cause; a merged visitor's earlier events count for the other visitor.
    """
    latest = defaultdict[VisitorKey, int](int)
    if aliases:
        canonical = {(scope, merged): (scope, kept) for scope, merged, kept, _ in aliases}
        visitors = {index: canonical.get(key, key) for index, key in visitors.items()}
        for merged, kept in canonical.items():
            latest[kept] = max(latest[kept], known.latest(merged))
    groups = _groups(events, visitors) if len(set(visitors.values())) < len(visitors) else {}
    for index, visitor in visitors.items():
        if groups and (group := groups.pop((events[index].batch, visitor), None)):
            earliest_ms = max(latest[visitor], known.latest(visitor))
            batch = [events[member] for member in group]
            for member, at_ms in zip(group, _times(batch, earliest_ms), strict=True):
                events[member] = events[member]._replace(occurred_at_ms=at_ms, stated_at_ms=at_ms)
        latest[visitor] = max(latest[visitor], events[index].occurred_at_ms)
    return latest


def _groups(
    events: Mapping[int, NewEvent], visitors: Mapping[int, VisitorKey]
) -> dict[tuple[object, VisitorKey], list[int]]:
    """Return the indexes of each visitor's events without timestamps, by batch and visitor."""
    groups = defaultdict[tuple[object, VisitorKey], list[int]](list)
    for index, visitor in visitors.items():
        if (batch := events[index].batch) is not None:
            groups[batch, visitor].append(index)
    return groups


def _times(batch: Sequence[NewEvent], earliest_ms: int) -> Iterator[int]:
    """Yield the times of a visitor's events in a batch."""
    last = len(batch) - 1
    numbered = [place for place, event in enumerate(batch) if _has_number(event)]
    for place, event in enumerate(batch):
        if numbered and numbered[0] <= place <= numbered[-1]:
            place = numbered[-1]
        received_at_ms = event.received_at_ms
        yield min(received_at_ms, max(received_at_ms - last + place, earliest_ms))


def _has_number(event: NewEvent) -> bool:
    return any(type(value) in (int, float) for value in event.properties.values())
