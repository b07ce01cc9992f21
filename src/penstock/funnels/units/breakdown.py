"""The values by which a unit is broken down, and the events that give them.

Source: semantics, "Entry" and "Breakdown by another step".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.scalar import MISSING
from penstock.funnels.definitions.model import FIRST, Definition
from penstock.funnels.units.path import (
    SERVED,
    FunnelPath,
    MatchedEvent,
    Order,
    conflicts,
    is_provably_after,
    required_rows,
)


@dataclass(frozen=True, slots=True)
class BreakdownValue:
    """A value of a unit.

    sources: the events that give it. tied: whether they had to agree on it. conflicts: other
    accepted events with another value; of a breakdown by the entry, see `path.conflicts`.
    """

    value: str
    sources: Sequence[MatchedEvent]
    tied: bool
    conflicts: Sequence[MatchedEvent]


def breakdown_values(definition: Definition, path: FunnelPath) -> list[BreakdownValue]:
    """Return a unit's value of each breakdown property."""
    indexes = range(len(definition.breakdown_properties))
    at = definition.breakdown_at
    if definition.is_by_entry:
        sources = path.candidates if path.tied else [path.entry]
        return [
            BreakdownValue(
                path.values[index], sources, path.tied, conflicts(definition, path, index)
            )
            for index in indexes
        ]
    if isinstance(at, int):
        return [_at_step(definition, path, at, index) for index in indexes]
    return [_at_end(definition, path, index) for index in indexes]


def _served(path: FunnelPath) -> list[tuple[int, MatchedEvent]]:
    """Return the accepted events with the steps that they served, in the order of the path."""
    return [
        (verdict.step, event)
        for event in path.events
        if (verdict := path.verdicts.get(event.event_id)) is not None and verdict.decision in SERVED
    ]


def _order(definition: Definition, path: FunnelPath, step: int, event: MatchedEvent) -> Order:
    if definition.in_any_order:
        return event.order if event.at_ms == path.entry_ms else event.late_order
    return event.order if step == 1 else event.late_order


def _at_step(definition: Definition, path: FunnelPath, step: int, index: int) -> BreakdownValue:
    if path.reached < step:
        return BreakdownValue(MISSING, [], False, [])
    completion, done = path.completed[step - 1], path.done[step - 1]
    rows = [row for row, _ in required_rows(definition)]
    own_rows = rows if definition.in_any_order else rows[step - 1 : step]
    rivals = [
        event
        for event in path.events
        if _order(definition, path, step, event)[:2] == done[:2]
        and any(event.matched[row] for row in own_rows)
    ]
    tied = _has_no_order(rivals)
    values = {event.values[index] for event in rivals} if tied else {completion.values[index]}
    value = values.pop() if len(values) == 1 else MISSING
    later = [
        event
        for number, event in _served(path)
        if number > step
        and is_provably_after(_order(definition, path, number, event), done)
        and value != MISSING
        and event.values[index] not in (value, MISSING)
    ]
    return BreakdownValue(value, rivals if tied else [completion], tied, later)


def _at_end(definition: Definition, path: FunnelPath, index: int) -> BreakdownValue:
    own = [
        (_order(definition, path, step, event), event)
        for step, event in _served(path)
        if event.values[index] != MISSING
    ]
    if not own:
        return BreakdownValue(MISSING, [], False, [])
    own.sort(key=lambda pair: pair[0][:4])
    end, event = own[0 if definition.breakdown_at == FIRST else -1]
    rivals = [event for order, event in own if order[:2] == end[:2]]
    tied = _has_no_order(rivals)
    values = {rival.values[index] for rival in rivals} if tied else {event.values[index]}
    value = values.pop() if len(values) == 1 else MISSING
    others = [event for _, event in own if event.values[index] != value]
    several = {event.values[index] for _, event in own}
    return BreakdownValue(
        value, rivals if tied else [event], tied, others if len(several) > 1 else []
    )


def _has_no_order(events: Sequence[MatchedEvent]) -> bool:
    numbers = [event.number for event in events]
    return len(events) > 1 and (None in numbers or len(set(numbers)) < len(numbers))
