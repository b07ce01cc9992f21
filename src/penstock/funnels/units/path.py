"""The path of one unit through a funnel, and what it shows about the unit.

`penstock.funnels.units.trace` finds the paths.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.base.scalar import MISSING
from penstock.funnels.definitions.model import CountingUnit, Definition, Row


class Decision(StrEnum):
    """A decision on an event, with the names in docs/reports.md, "Trace"."""

    ENTRY = "entry"
    ACCEPTED = "accepted"
    SEQUENCE_SKIP = "sequenceSkip"
    UNORDERED_TIE = "unorderedTie"
    OUTSIDE_WINDOW = "outsideWindow"
    NO_MATCH = "noMatch"
    UNVERIFIED_PROVIDER = "unverifiedProvider"
    DIAGNOSTIC = "diagnostic"
    EXCLUSION = "exclusion"


SERVED = (Decision.ENTRY, Decision.ACCEPTED)
"""Decisions on events that completed a step or filled a part of a step."""


Order = tuple[int, bool, bool, int, str]
"""Sort key of an event: its time in milliseconds, whether it comes after everything else in that
millisecond, whether it has no usable number, the number, and the event ID.
"""


@dataclass(frozen=True, slots=True)
class MatchedEvent:
    """An event as one funnel reads it.

    number: its usable sequence number. invalid: whether it has a sequence value that is not usable.
    matched: for each row of the definition, the indexes of the matches that it satisfies. values:
    tagged entry values, one per breakdown property. coarse: whether its provider states times in
    whole seconds ("Whole seconds"). met: for each of the query's conditions on entries, whether it
    meets the condition. compared: the value that the condition compares. is_sent: False for an app
    open that Penstock recorded itself.
    """

    event_id: str
    at_ms: int
    number: int | None
    invalid: bool
    matched: tuple[frozenset[int], ...]
    values: tuple[str, ...]
    coarse: bool = False
    met: tuple[bool, ...] = ()
    compared: tuple[Any, ...] = ()
    is_sent: bool = True

    @property
    def order(self) -> Order:
        """Reading order for step 1: a whole second counts at its start."""
        return self.at_ms, False, *self._within_time

    @property
    def late_order(self) -> Order:
        """Reading order for later steps: a whole second counts after everything else in it."""
        return self.late_ms, self.coarse, *self._within_time

    @property
    def late_ms(self) -> int:
        """The time at which the event completes a later step. A whole second counts at its end."""
        return self.at_ms // 1000 * 1000 + 999 if self.coarse else self.at_ms

    @property
    def _within_time(self) -> tuple[bool, int, str]:
        return self.number is None, self.number or 0, self.event_id


def is_provably_after(order: Order, earlier: Order) -> bool:
    """Whether time, or at equal times both numbers, prove the order (R6)."""
    if order[:2] != earlier[:2]:
        return order[:2] > earlier[:2]
    return not order[2] and not earlier[2] and order[3] > earlier[3]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on an event that matches the next step, or excludes the unit before it.

    step: the required step, from 1; for an exclusion, the last completed step. parts: the parts of
    a group that the event filled. against: the event that a tie was compared with. number: the last
    accepted number before a skip. excludes: whether the event is one that excludes. row: index of
    the row that the event serves, if steps count in any order.
    """

    decision: Decision
    step: int
    parts: frozenset[int] = frozenset()
    completes: bool = False
    against: MatchedEvent | None = None
    number: int | None = None
    excludes: bool = False
    row: int | None = None


@dataclass(slots=True)
class FunnelPath:
    """The progress of a unit after one entry.

    entry: the event that completed step 1. values: tagged entry values. passes: whether they meet
    the query's conditions on entries. candidates: the events that decide the values. tied: whether
    they decide by agreement. completed: the event that completed each step. done: the sort key at
    which each step was completed. options: for each completed step, the matches that count; in any
    order, for each step. events: all events of the unit, in reading order. later: the events that
    are read after the entry. accepted: the events after the entry that rule 5 accepted. verdicts:
    the decisions on events that matched the next step, by event ID. ties: number of unordered ties.
    excluded_by: the event that excluded the unit, if any. assumed: accepted events whose order is
    assumed, because their times are equal. newest: the path of a visitor's last entry that may
    count and is not excluded.
    """

    entry: MatchedEvent
    values: tuple[str, ...]
    passes: bool
    candidates: Sequence[MatchedEvent]
    tied: bool
    completed: list[MatchedEvent]
    done: list[Order]
    options: list[frozenset[int]]
    events: Sequence[MatchedEvent]
    later: Sequence[MatchedEvent]
    window_end_ms: int | None
    accepted: list[MatchedEvent] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    ties: int = 0
    excluded_by: MatchedEvent | None = None
    assumed: list[MatchedEvent] = field(default_factory=list)
    newest: "FunnelPath | None" = None

    @property
    def excluded_ms(self) -> int | None:
        """The time at which the unit was excluded; None if it was not."""
        return None if self.excluded_by is None else self.excluded_by.late_ms

    @property
    def entry_ms(self) -> int:
        return self.entry.at_ms

    @property
    def done_ms(self) -> list[int]:
        """The time at which each step was completed."""
        return [order[0] for order in self.done]

    @property
    def reached(self) -> int:
        return len(self.completed)

    @property
    def skips(self) -> int:
        return sum(verdict.decision is Decision.SEQUENCE_SKIP for verdict in self.verdicts.values())

    def first_ms(self, definition: Definition) -> int | None:
        """The start of the span of diagnostic rows above step 1; None for the first event."""
        return None if definition.window_s is None else self.entry_ms - definition.window_s * 1000

    def is_open(self, definition: Definition, evaluated_at_ms: int) -> bool:
        """Whether the unit has not completed, and an entry of it still may."""
        return self.reached < len(definition.steps) and any(
            path is not None and path.in_window(evaluated_at_ms) and path.excluded_by is None
            for path in (self, self.newest)
        )

    def is_settled(self, definition: Definition, evaluated_at_ms: int) -> bool:
        """Whether the window has ended, and the unit is not open."""
        has_ended = not self.in_window(evaluated_at_ms)
        return has_ended and not self.is_open(definition, evaluated_at_ms)

    def in_window(self, at_ms: int) -> bool:
        """Whether a time after the entry is inside the window, including the window's end."""
        return self.window_end_ms is None or at_ms <= self.window_end_ms


def required_rows(definition: Definition) -> list[tuple[int, Row]]:
    """Return the required steps with their indexes among the rows."""
    return [(row_index, row) for row_index, row in enumerate(definition.rows) if row.required]


def rank(definition: Definition, event: MatchedEvent, step: int) -> tuple[Any, ...]:
    """Return the sort key of an event among those that could complete a step at the same time.

    The event with the fewest later rows comes first, then the first match. Events that are equal in
    the rows that they match and in their values are interchangeable. Events with equal numbers are
    read as they arrived. step: index of the step. Source: semantics, "Equal times".
    """
    if event.number is not None:
        return (event.event_id,)
    row_index, _ = required_rows(definition)[step]
    bits = size = later = 0
    for index, row in enumerate(definition.rows):
        if not row.diagnostic:
            bits |= sum(1 << (size + match) for match in event.matched[index])
            later += index > row_index and bool(event.matched[index])
        size += len(row.matches)
    first = min(event.matched[row_index], default=0)
    return later, first, bits, event.coarse, event.values, event.event_id


def exclusion_row(definition: Definition, step: int) -> int | None:
    """Return the index of the exclusion row after a step; None if there is none."""
    above = 0
    for row_index, row in enumerate(definition.rows):
        above += row.required
        if row.exclude and above == step:
            return row_index
    return None


def gaps_of(definition: Definition, event: MatchedEvent) -> frozenset[int]:
    """Return the numbers of the steps after which an event excludes a unit.

    It matches the exclusion row there. Or the next step is strict, and the event matches another
    step but not that one; if nothing else may lie before the next step, it may match no step.
    """
    if not definition.excludes:
        return frozenset()
    steps = required_rows(definition)
    of_steps = any(event.matched[row_index] for row_index, _ in steps)
    gaps = set()
    for step, (row_index, row) in enumerate(steps[1:], start=1):
        exclusion = exclusion_row(definition, step)
        if (exclusion is not None and event.matched[exclusion]) or (
            (of_steps or (row.strict_all and event.is_sent))
            and row.strict
            and not event.matched[row_index]
        ):
            gaps.add(step)
    return frozenset(gaps)


def entry_values(
    entry: MatchedEvent, candidates: Sequence[MatchedEvent]
) -> tuple[tuple[str, ...], bool]:
    """Return the entry values, and whether agreement decided them.

    They are the values of the entry event (R9, R10). If the order of several candidates is not
    known, only values on which all of them agree count (R11).
    """
    numbers = [candidate.number for candidate in candidates]
    ordered = len(candidates) == 1 or (None not in numbers and len(set(numbers)) == len(numbers))
    if ordered:
        return entry.values, False
    indexes = range(len(entry.values))
    seen = [{candidate.values[index] for candidate in candidates} for index in indexes]
    return tuple(values.pop() if len(values) == 1 else MISSING for values in seen), True


def passes(
    definition: Definition, entry: MatchedEvent, candidates: Sequence[MatchedEvent], *, tied: bool
) -> bool:
    """Whether the entry values meet the query's conditions on entries."""
    return all(
        condition.if_missing
        if tied and len({candidate.compared[index] for candidate in candidates}) > 1
        else is_met
        for index, (condition, is_met) in enumerate(
            zip(definition.entry_conditions, entry.met, strict=True)
        )
    )


def conflicts(definition: Definition, path: FunnelPath, property_index: int) -> list[MatchedEvent]:
    """Return the later events that disagree with an entry value that is not missing (R12).

    They are proven to come after the entry. For a visitor, who may enter again, only accepted
    events count; for an attempt, all events inside the window that match a required step.
    property_index: index of the breakdown property.
    """
    events: Sequence[MatchedEvent] = path.accepted
    if definition.counting_unit is CountingUnit.ATTEMPT:
        rows = [row for row, _ in required_rows(definition)]
        events = [
            event
            for event in path.later
            if path.in_window(event.at_ms) and any(event.matched[row] for row in rows)
        ]
    entry_value = path.values[property_index]
    return [
        event
        for event in events
        if entry_value != MISSING
        and event.values[property_index] not in (entry_value, MISSING)
        and is_provably_after(event.late_order, path.entry.order)
        and not (definition.in_any_order and event.at_ms == path.entry_ms)
    ]


def seen_by_diagnostics(definition: Definition, path: FunnelPath) -> dict[int, list[MatchedEvent]]:
    """Return the events that each diagnostic row counts, by row index, for the rows reached.

    They occurred from the completion of the step above until the completion of the next step, the
    exclusion, or the window's end, both inclusive. For a row above step 1, they occurred at most
    one window before the entry. A whole second counts if any of its milliseconds is in that time.
    """
    seen: dict[int, list[MatchedEvent]] = {}
    above = 0
    for row_index, row in enumerate(definition.rows):
        if not row.diagnostic:
            above += row.required
            continue
        if path.reached < above:
            continue
        end_ms = path.window_end_ms if path.excluded_ms is None else path.excluded_ms
        until_ms = path.done_ms[above] if path.reached > above else end_ms
        from_ms = path.done_ms[above - 1] if above else path.first_ms(definition)
        seen[row_index] = [
            event
            for event in path.events
            if event.matched[row_index]
            and (from_ms is None or from_ms <= event.late_ms)
            and (until_ms is None or event.at_ms <= until_ms)
        ]
    return seen


def fills_row(row: Row, row_index: int, seen: Sequence[MatchedEvent]) -> bool:
    """Whether a diagnostic row counts a unit. row_index: its index. seen: the row's events."""
    if row.all_of:
        filled = frozenset[int]().union(*(event.matched[row_index] for event in seen))
        return len(filled) == len(row.matches)
    return bool(seen)


def coarse_times(definition: Definition, events: Sequence[MatchedEvent]) -> int:
    """Count events that match a step and whose whole second contains another such event."""
    rows = [row for row, _ in required_rows(definition)]
    own = [event for event in events if any(event.matched[row] for row in rows)]
    seconds = Counter(event.at_ms // 1000 for event in own)
    return sum(event.coarse and seconds[event.at_ms // 1000] > 1 for event in own)
