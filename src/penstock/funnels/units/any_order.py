"""The paths of one unit through a funnel whose steps may come in any order.

A run reads the events from its entry to the end of its window, one after the other. An event counts
if it raises the number of steps that different events can serve, and it completes the step with
that number. Source: semantics, "Any order".
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.units.path import (
    Decision,
    FunnelPath,
    MatchedEvent,
    Order,
    Verdict,
    entry_values,
    passes,
    required_rows,
)


def paths_in_any_order(
    definition: Definition, events: Sequence[MatchedEvent]
) -> Iterator[FunnelPath]:
    """Yield a path for each time at which an event of the unit matches a step, earliest first; for
    an attempt, only the first. events: the events of one unit.
    """
    events = sorted(events, key=lambda event: event.order)
    entries = [event for event in events if _rows_of(definition, event)]
    for _, group in groupby(entries, key=lambda event: event.at_ms):
        together = sorted(group, key=lambda event: _preference(definition, event))
        entry = _choose_entry(definition, together)
        yield _follow(definition, events, entry, together)
        if definition.counting_unit is CountingUnit.ATTEMPT:
            return


def _choose_entry(definition: Definition, together: Sequence[MatchedEvent]) -> MatchedEvent:
    """Return the first event of a time that may be an entry, or else the first one."""
    tied = len(together) > 1
    return next(
        (event for event in together if passes(definition, event, together, tied=tied)),
        together[0],
    )


def _follow(
    definition: Definition,
    events: Sequence[MatchedEvent],
    entry: MatchedEvent,
    together: Sequence[MatchedEvent],
) -> FunnelPath:
    """Return the path that starts at an entry. together: the events of steps at its time."""
    values, tied = entry_values(entry, together)
    path = FunnelPath(
        entry=entry,
        values=values,
        passes=passes(definition, entry, together, tied=tied),
        candidates=together,
        tied=tied,
        completed=[],
        done=[],
        options=[],
        events=events,
        later=[],
        window_end_ms=None
        if definition.window_s is None
        else entry.at_ms + definition.window_s * 1000,
    )
    reading = sorted(
        (event for event in events if path.in_window(event.at_ms)),
        key=lambda event: (
            _order(path, event)[:2],
            event is not entry,
            _preference(definition, event),
        ),
    )
    reading = [event for event in reading if _order(path, event)[:2] >= entry.order[:2]]
    path.later = [event for event in reading if event.at_ms != entry.at_ms and event is not entry]
    exclusion = next(
        (
            event
            for event in reading
            if _excludes(definition, event) and _order(path, event)[:2] > entry.order[:2]
        ),
        None,
    )
    read = [
        event
        for event in reading
        if _rows_of(definition, event)
        and (exclusion is None or _order(path, event)[:2] < exclusion.late_order[:2])
    ]
    _accept(definition, path, read)
    path.options = _options(definition, path, read)
    if exclusion is not None and path.reached < len(definition.steps):
        _exclude(definition, path, reading, exclusion)
    for event in reading:
        if (
            _excludes(definition, event)
            and not _rows_of(definition, event)
            and _order(path, event)[:2] == entry.order[:2]
        ):
            _tie(path, event, 2, entry, excludes=True)
    return path


def _accept(definition: Definition, path: FunnelPath, read: Sequence[MatchedEvent]) -> None:
    """Accept the events that raise the number of steps that different events can serve."""
    serves: dict[int, MatchedEvent] = {}  # by row
    for event in read:
        if not _finds_row(definition, event, serves, set()):
            continue
        path.completed.append(event)
        path.done.append(_order(path, event))
        if event is not path.entry:
            path.accepted.append(event)
    # The rows of the assignment that comes first in row order.
    own = {event.event_id: event for event in path.completed}
    taken: dict[str, int] = {}  # row by the ID of the event that serves it
    for row_index, _ in required_rows(definition):
        _finds_event(row_index, own, taken, set())
    for step, event in enumerate(path.completed, start=1):
        decision = Decision.ENTRY if event is path.entry else Decision.ACCEPTED
        path.verdicts[event.event_id] = Verdict(
            decision, step, completes=True, row=taken[event.event_id]
        )


def _finds_row(
    definition: Definition,
    event: MatchedEvent,
    serves: dict[int, MatchedEvent],
    tried: set[int],
) -> bool:
    """Whether an event can serve a row beside the others, some of which may move to other rows."""
    for row_index in _rows_of(definition, event):
        if row_index in tried:
            continue
        tried.add(row_index)
        other = serves.get(row_index)
        if other is None or _finds_row(definition, other, serves, tried):
            serves[row_index] = event
            return True
    return False


def _finds_event(
    row_index: int, events: Mapping[str, MatchedEvent], taken: dict[str, int], tried: set[str]
) -> bool:
    """Whether an event can serve a row beside the rows before it."""
    for event_id, event in events.items():
        if not event.matched[row_index] or event_id in tried:
            continue
        tried.add(event_id)
        if event_id not in taken or _finds_event(taken[event_id], events, taken, tried):
            taken[event_id] = row_index
            return True
    return False


def _options(
    definition: Definition, path: FunnelPath, read: Sequence[MatchedEvent]
) -> list[frozenset[int]]:
    """Return for each step the option that its earliest events match first; none if it was not
    done.
    """
    done = {verdict.row for verdict in path.verdicts.values()}
    options = []
    for row_index, _ in required_rows(definition):
        own = [event for event in read if event.matched[row_index]]
        first = [event for event in own if _order(path, event)[:2] == _order(path, own[0])[:2]]
        matched = [min(event.matched[row_index]) for event in first if row_index in done]
        options.append(frozenset(sorted(matched)[:1]))
    return options


def _exclude(
    definition: Definition,
    path: FunnelPath,
    reading: Sequence[MatchedEvent],
    exclusion: MatchedEvent,
) -> None:
    """End a path at an exclusion. Events of steps at the same time are unordered ties."""
    path.excluded_by = exclusion
    path.verdicts[exclusion.event_id] = Verdict(Decision.EXCLUSION, path.reached, excludes=True)
    for event in reading:
        if (
            _order(path, event)[:2] == exclusion.late_order[:2]
            and _rows_of(definition, event)
            and not _excludes(definition, event)
        ):
            _tie(path, event, path.reached + 1, exclusion)


def _tie(
    path: FunnelPath,
    event: MatchedEvent,
    step: int,
    against: MatchedEvent,
    *,
    excludes: bool = False,
) -> None:
    path.ties += 1
    path.verdicts[event.event_id] = Verdict(
        Decision.UNORDERED_TIE, step, against=against, excludes=excludes
    )


def _rows_of(definition: Definition, event: MatchedEvent) -> list[int]:
    """Return the indexes of the steps' rows that an event matches."""
    return [index for index, _ in required_rows(definition) if event.matched[index]]


def _excludes(definition: Definition, event: MatchedEvent) -> bool:
    return any(row.exclude and event.matched[index] for index, row in enumerate(definition.rows))


def _order(path: FunnelPath, event: MatchedEvent) -> Order:
    """Return the reading order of an event. All events of the entry's time count with the entry."""
    return event.order if event.at_ms == path.entry_ms else event.late_order


def _preference(definition: Definition, event: MatchedEvent) -> tuple[Any, ...]:
    """Return the sort key of an event among those of its time: the fewest steps first. Events that
    are equal in the rows that they match and in their values are interchangeable.
    """
    bits = size = 0
    for index, row in enumerate(definition.rows):
        if not row.diagnostic:
            bits |= sum(1 << (size + match) for match in event.matched[index])
        size += len(row.matches)
    rows = len(_rows_of(definition, event))
    return rows, bits, event.coarse, event.values, event.event_id
