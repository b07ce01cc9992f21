"""Times for events that were sent in one batch without timestamps, in the order of the batch.

The i-th of a visitor's k events has the time of receipt - (k - i) ms, but not an earlier time than
the visitor's previous event on this node. Where that leaves no room, times are equal.

Events with a number in their properties may have sequence numbers, which prove an order only at
equal times. So these events share the time of the last of them, and so do the events between them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
            if at_ms > self._recent.get(visitor, 0):
                self._recent[visitor] = at_ms


class EventTimes(NamedTuple):
    """Times of new events, in milliseconds.

    by_index: for events whose position in a batch decides their time. by_visitor: the latest times.
    """

    by_index: Mapping[int, int]
    by_visitor: Mapping[VisitorKey, int]


def order_batches(
    events: Mapping[int, NewEvent],
    visitors: Mapping[int, VisitorKey],
    aliases: Sequence[Alias],
    known: VisitorTimes,
) -> EventTimes:
    """Return the times of new events.

    events: by index. visitors: canonical visitors of the new events, by index, in order. aliases:
    merges that these events cause; a merged visitor's earlier events count for the other visitor.
    """
    times, latest = dict[int, int](), dict[VisitorKey, int]()
    if aliases:
        merges = {(scope, merged): (scope, canonical) for scope, merged, canonical, _ in aliases}
        visitors = {index: merges.get(key, key) for index, key in visitors.items()}
        for merged, canonical in merges.items():
            latest[canonical] = max(latest.get(canonical, 0), known.latest(merged))
    groups = _groups(events, visitors) if len(set(visitors.values())) < len(visitors) else {}
    for index, visitor in visitors.items():
        event = events[index]
        if groups and (group := groups.pop((event.batch, visitor), None)):
            batch = [events[member] for member in group]
            earliest_ms = max(latest.get(visitor, 0), known.latest(visitor))
            times.update(zip(group, _times(batch, earliest_ms), strict=True))
        # A visitor's last event in a batch has the time of receipt.
        if event.occurred_at_ms > latest.get(visitor, 0):
            latest[visitor] = event.occurred_at_ms
    return EventTimes(times, latest)


def _groups(
    events: Mapping[int, NewEvent], visitors: Mapping[int, VisitorKey]
) -> dict[tuple[object, VisitorKey], list[int]]:
    """Return the indexes of each visitor's events without timestamps, by batch and visitor."""
    groups = defaultdict[tuple[object, VisitorKey], list[int]](list)
    for index, visitor in visitors.items():
        if (batch := events[index].batch) is not None:
            groups[batch, visitor].append(index)
    return groups


def _times(batch: Sequence[NewEvent], earliest_ms: int) -> Sequence[int]:
    """Return the times of a visitor's events in a batch."""
    received_at_ms = batch[0].received_at_ms
    times = [*range(received_at_ms - len(batch) + 1, received_at_ms + 1)]
    if numbered := [index for index, event in enumerate(batch) if _has_number(event)]:
        first, last = numbered[0], numbered[-1]
        times[first:last] = [times[last]] * (last - first)
    if times[0] < earliest_ms:
        return [min(max(at_ms, earliest_ms), received_at_ms) for at_ms in times]
    return times


def _has_number(event: NewEvent) -> bool:
    return not _NUMBERS.isdisjoint(map(type, event.properties.values()))


_NUMBERS = frozenset((int, float))
