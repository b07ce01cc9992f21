"""The counting rules in plain Python, for one unit, with the decision on each of its events.

This is the readable specification of docs/funnels.md. The engine's statement applies the same rules
to all units at once (`penstock.funnels.statements.fold`). The property tests compare both with an
evaluation that shares no code with them (tests/funnels/reference). "R7" and the like are the
numbers of the attempt counting rules.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, takewhile

from penstock.base.scalar import MISSING
from penstock.funnels.definitions.model import CountingUnit, Definition, Row
from penstock.funnels.statements.entries import MAX_COMPARISONS, MAX_TOGETHER


class Decision(StrEnum):
    """A decision on an event, with the names in docs/funnels.md, "Trace"."""

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
    whole seconds ("Whole seconds"). passes: whether it passes the query's entry filters.
    """

    event_id: str
    at_ms: int
    number: int | None
    invalid: bool
    matched: tuple[frozenset[int], ...]
    values: tuple[str, ...]
    coarse: bool = False
    passes: bool = True

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
    accepted number before a skip. excludes: whether the event is one that excludes.
    """

    decision: Decision
    step: int
    parts: frozenset[int] = frozenset()
    completes: bool = False
    against: MatchedEvent | None = None
    number: int | None = None
    excludes: bool = False


@dataclass(slots=True)
class FunnelPath:
    """The progress of a unit after one entry.

    entry: the event that completed step 1. values: tagged entry values. candidates: the events that
    decide the values. tied: whether they decide by agreement. completed: the event that completed
    each step. done: the sort key at which each step was completed. options: for each completed
    step, the matches that count. events: all events of the unit, in reading order. later: the
    events that are read after the entry. accepted: the events after the entry that rule 5 accepted.
    verdicts: the decisions on events that matched the next step, by event ID. ties: number of
    unordered ties. excluded_by: the event that excluded the unit, if any. assumed: accepted events
    whose order is assumed, because their times are equal.
    """

    entry: MatchedEvent
    values: tuple[str, ...]
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

    def is_open(self, evaluated_at_ms: int) -> bool:
        """Whether the window has not ended yet (R14)."""
        return self.in_window(evaluated_at_ms)

    def in_window(self, at_ms: int) -> bool:
        """Whether a time after the entry is inside the window, including the window's end."""
        return self.window_end_ms is None or at_ms <= self.window_end_ms


def required_rows(definition: Definition) -> list[tuple[int, Row]]:
    """Return the required steps with their indexes among the rows."""
    return [(place, row) for place, row in enumerate(definition.rows) if row.required]


def exclusion_row(definition: Definition, step: int) -> int | None:
    """Return the index of the exclusion row after a step; None if there is none."""
    above = 0
    for place, row in enumerate(definition.rows):
        above += row.required
        if row.exclude and above == step:
            return place
    return None


def _gaps(definition: Definition, event: MatchedEvent) -> frozenset[int]:
    """Return the numbers of the steps after which an event excludes a unit.

    It matches the exclusion row there. Or the next step is strict, and the event matches another
    step but not that one.
    """
    if not definition.excludes:
        return frozenset()
    steps = required_rows(definition)
    of_steps = any(event.matched[place] for place, _ in steps)
    gaps = set()
    for step, (place, row) in enumerate(steps[1:], start=1):
        exclusion = exclusion_row(definition, step)
        if (exclusion is not None and event.matched[exclusion]) or (
            row.strict and of_steps and not event.matched[place]
        ):
            gaps.add(step)
    return frozenset(gaps)


def funnel_paths(definition: Definition, events: Sequence[MatchedEvent]) -> Iterator[FunnelPath]:
    """Yield a path for each completion of step 1, earliest first.

    events: the events of one unit, in reading order.
    """
    place, step = required_rows(definition)[0]
    sequel = _Sequel(definition, events)
    filled: frozenset[int] = frozenset()
    filled_before: frozenset[int] = frozenset()
    verdicts: dict[str, Verdict] = {}
    now_ms, now_index, number = None, 0, None
    for index, event in enumerate(events):
        if event.at_ms != now_ms:
            now_ms, now_index, filled_before = event.at_ms, index, filled
        matches = event.matched[place] - filled
        if not matches:
            continue
        number = number if event.number is None else event.number
        if step.all_of:
            filled |= matches
            if len(filled) < len(step.matches):
                verdicts[event.event_id] = Verdict(Decision.ACCEPTED, 1, matches)
                continue
        candidates = [
            other
            for other in _events_at_once(events, now_index)
            if other.matched[place] - filled_before
        ]
        verdicts[event.event_id] = Verdict(Decision.ENTRY, 1, matches, completes=True)
        start = _Start(index, matches, number, candidates, verdicts)
        yield _follow(definition, events, sequel, start)
        filled, filled_before, number, verdicts = frozenset(), frozenset(), None, {}


def _events_at_once(events: Sequence[MatchedEvent], first: int) -> Iterator[MatchedEvent]:
    """Return the event at index `first` and the next events with the same time."""
    at_ms = events[first].at_ms
    from_first = (events[index] for index in range(first, len(events)))
    return takewhile(lambda event: event.at_ms == at_ms, from_first)


class _Sequel:
    """The events of a unit in the order in which they follow an entry.

    gaps: for each event, the steps after which it excludes a unit. positions: for each number of
    completed steps, the indexes of the events that match the next step or exclude there. A visitor
    may enter thousands of times, so they are computed once.
    """

    def __init__(self, definition: Definition, events: Sequence[MatchedEvent]) -> None:
        self.events = sorted(events, key=lambda event: event.late_order)
        self.orders = [event.late_order for event in self.events]
        self.gaps = [_gaps(definition, event) for event in self.events]
        self.positions = [
            [
                index
                for index, event in enumerate(self.events)
                if event.matched[place] or step in self.gaps[index]
            ]
            for step, (place, _) in enumerate(required_rows(definition))
        ]

    def at_once(self, index: int) -> Iterator[int]:
        """Yield the indexes of the events at the same time as an event, in reading order."""
        first = bisect_left(self.orders, self.orders[index][:2])
        instant = self.orders[index][:2]
        for other in range(first, len(self.events)):
            if self.orders[other][:2] != instant:
                return
            yield other


@dataclass(frozen=True, slots=True)
class _Start:
    """A completion of step 1.

    index: the entry's index among the events. matches: the matches of step 1 that the entry counts
    for. number: the last usable sequence number of step 1. candidates: the events that decide the
    entry values. verdicts: the decisions on the events up to the entry.
    """

    index: int
    matches: frozenset[int]
    number: int | None
    candidates: Sequence[MatchedEvent]
    verdicts: dict[str, Verdict]


def _follow(
    definition: Definition,
    events: Sequence[MatchedEvent],
    sequel: _Sequel,
    start: _Start,
) -> FunnelPath:
    """Return the path that starts at an entry."""
    number, verdicts = start.number, start.verdicts
    steps, entry = required_rows(definition), events[start.index]
    index = bisect_right(sequel.orders, entry.order) - 1
    values, tied = entry_values(entry, start.candidates)
    path = FunnelPath(
        entry=entry,
        values=values,
        candidates=start.candidates,
        tied=tied,
        completed=[entry],
        done=[entry.order],
        options=[_counted_matches(steps[0][1], start.matches)],
        events=events,
        later=[event for event in sequel.events[index + 1 :] if event.event_id not in verdicts],
        window_end_ms=None
        if definition.window_s is None
        else entry.at_ms + definition.window_s * 1000,
        verdicts=verdicts,
    )
    filled = frozenset[int]()
    in_step_order = definition.in_step_order
    if not in_step_order:
        _refuse_earlier_ties(path, steps, sequel, index)
    reading = (
        _reading_in_step_order(path, sequel) if in_step_order else _reading(path, sequel, index)
    )
    for index in reading:
        place, step = steps[path.reached]
        event = sequel.events[index]
        refused = verdicts.get(event.event_id)
        if refused is not None and (not in_step_order or refused.decision in SERVED):
            continue
        next_step = path.reached + 1
        matches = event.matched[place] - filled
        excludes = path.reached in sequel.gaps[index]
        if not matches and not excludes:
            continue
        if not path.in_window(event.at_ms):
            if matches:
                verdicts[event.event_id] = Verdict(Decision.OUTSIDE_WINDOW, next_step, matches)
            continue
        is_proven = is_provably_after(event.late_order, path.done[-1])
        is_assumed = in_step_order and not excludes and _is_unordered(event, path)
        if not is_proven and not is_assumed:
            if is_provably_after(path.done[-1], event.late_order):
                continue
            if refused is not None:  # Counted when it was read before.
                continue
            path.ties += 1
            verdicts[event.event_id] = Verdict(
                Decision.UNORDERED_TIE,
                next_step,
                matches,
                against=path.completed[-1],
                excludes=excludes,
            )
            continue
        if _is_stale(event, number):
            if refused is None:
                verdicts[event.event_id] = Verdict(
                    Decision.SEQUENCE_SKIP, next_step, matches, number=number
                )
            continue
        exclusion = index if excludes else None
        if is_proven and not excludes:
            exclusion = _exclusion_at_once(path, sequel, index, number)
        if exclusion is not None:
            _exclude(path, sequel, exclusion, place, filled, number)
            break
        path.accepted.append(event)
        if not is_proven:
            path.assumed.append(event)
        number = number if event.number is None else event.number
        if step.all_of:
            filled |= matches
            if len(filled) < len(step.matches):
                verdicts[event.event_id] = Verdict(Decision.ACCEPTED, next_step, matches)
                continue
        verdicts[event.event_id] = Verdict(Decision.ACCEPTED, next_step, matches, completes=True)
        path.completed.append(event)
        path.done.append(event.late_order)
        path.options.append(_counted_matches(step, matches))
        filled = frozenset()
        if path.reached == len(steps):
            break
        if not in_step_order:
            _refuse_earlier_ties(path, steps, sequel, index)
    return path


def _reading(path: FunnelPath, sequel: _Sequel, index: int) -> Iterator[int]:
    """Yield the indexes of the events that can affect a path, each in the state that it meets."""
    while True:
        positions = sequel.positions[path.reached]
        following = bisect_right(positions, index)
        if following == len(positions):
            return
        index = positions[following]
        yield index


def _reading_in_step_order(path: FunnelPath, sequel: _Sequel) -> Iterator[int]:
    """Yield the indexes of the events from the entry's time on.

    Events of one time are read again after one of them was accepted, because each may follow it.
    """
    index = bisect_left(sequel.orders, path.entry.order[:2])
    while index < len(sequel.events):
        together = list(sequel.at_once(index))
        readings = 1
        if 1 < len(together) <= MAX_TOGETHER:
            readings += len(together)
        for _ in range(readings):
            before = len(path.accepted)
            yield from together
            if len(path.accepted) == before:
                break
        index = together[-1] + 1


def _is_unordered(event: MatchedEvent, path: FunnelPath) -> bool:
    """Whether an event has the time of the last completion, and not both have usable numbers."""
    order, last = event.late_order, path.done[-1]
    return order[:2] == last[:2] and (order[2] or last[2])


def _is_stale(event: MatchedEvent, number: int | None) -> bool:
    """Whether an event's number is not greater than the last accepted one (rule 4)."""
    return event.number is not None and number is not None and event.number <= number


def _exclusion_at_once(
    path: FunnelPath, sequel: _Sequel, index: int, number: int | None
) -> int | None:
    """Return the index of the first exclusion at the time of an event that would be accepted.

    At one time an exclusion counts first, unless numbers prove that it came later.
    """
    order = sequel.orders[index]
    for other in sequel.at_once(index):
        event = sequel.events[other]
        if (
            path.reached in sequel.gaps[other]
            and event.event_id not in path.verdicts
            and is_provably_after(event.late_order, path.done[-1])
            and not is_provably_after(event.late_order, order)
            and not _is_stale(event, number)
        ):
            return other
    return None


def _exclude(
    path: FunnelPath,
    sequel: _Sequel,
    index: int,
    place: int,
    filled: frozenset[int],
    number: int | None,
) -> None:
    """End a path at an exclusion. Events of the next step whose order is not proven are ties.

    index: index of the exclusion. place: index of the next step's row. filled: its filled parts.
    """
    exclusion, step = sequel.events[index], path.reached
    path.excluded_by = exclusion
    path.verdicts[exclusion.event_id] = Verdict(Decision.EXCLUSION, step, excludes=True)
    for other in sequel.at_once(index):
        event = sequel.events[other]
        matches = event.matched[place] - filled
        if (
            matches
            and step not in sequel.gaps[other]
            and path.verdicts.get(event.event_id) is None
            and not _is_stale(event, number)
            and not is_provably_after(event.late_order, exclusion.late_order)
            and not is_provably_after(exclusion.late_order, event.late_order)
        ):
            path.ties += 1
            path.verdicts[event.event_id] = Verdict(
                Decision.UNORDERED_TIE, step + 1, matches, against=exclusion
            )


def _refuse_earlier_ties(
    path: FunnelPath, steps: Sequence[tuple[int, Row]], sequel: _Sequel, index: int
) -> None:
    """Apply rule 3 to events that have the time of the last completion but were read before it.

    They match the next step or would exclude before it, and were not used for any step. It is not
    known whether they came before or after the completion, so ties do not depend on the order of
    arrival. index: the index of the event that completed the step, or of the last event before it.
    """
    if path.reached == len(steps):
        return
    last, next_step = path.completed[-1], path.reached + 1
    place, _ = steps[path.reached]
    for earlier in takewhile(
        lambda earlier: sequel.orders[earlier][:2] == path.done[-1][:2], range(index, -1, -1)
    ):
        event, excludes = sequel.events[earlier], path.reached in sequel.gaps[earlier]
        verdict = path.verdicts.get(event.event_id)
        if (
            (event.matched[place] or excludes)
            and not is_provably_after(path.done[-1], event.late_order)
            and (verdict is None or verdict.decision not in SERVED)
        ):
            path.ties += 1
            tie = Verdict(
                Decision.UNORDERED_TIE,
                next_step,
                event.matched[place],
                against=last,
                excludes=excludes,
            )
            path.verdicts.setdefault(event.event_id, tie)


def _counted_matches(row: Row, matches: frozenset[int]) -> frozenset[int]:
    """Return all parts of a complete group, or the first option that matched."""
    return frozenset(range(len(row.matches))) if row.all_of else frozenset((min(matches),))


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
    places = range(len(entry.values))
    seen = [{candidate.values[place] for candidate in candidates} for place in places]
    return tuple(values.pop() if len(values) == 1 else MISSING for values in seen), True


def conflicts(definition: Definition, path: FunnelPath, place: int) -> list[MatchedEvent]:
    """Return the later events that disagree with an entry value that is not missing (R12).

    For a visitor, who may enter again, only accepted events count; for an attempt, all events
    inside the window that match a required step. place: index of the breakdown property.
    """
    events: Sequence[MatchedEvent] = path.accepted
    if definition.counting_unit is CountingUnit.ATTEMPT:
        rows = [row for row, _ in required_rows(definition)]
        events = [
            event
            for event in path.later
            if path.in_window(event.at_ms) and any(event.matched[row] for row in rows)
        ]
    entry_value = path.values[place]
    return [
        event
        for event in events
        if entry_value != MISSING and event.values[place] not in (entry_value, MISSING)
    ]


def seen_by_diagnostics(definition: Definition, path: FunnelPath) -> dict[int, list[MatchedEvent]]:
    """Return the events that each diagnostic row counts, by row index, for the rows reached.

    They occurred from the completion of the step above until the completion of the next step, the
    exclusion, or the window's end, both inclusive. For a row above step 1, they occurred at most
    one window before the entry. A whole second counts if any of its milliseconds is in that time.
    """
    seen: dict[int, list[MatchedEvent]] = {}
    above = 0
    for place, row in enumerate(definition.rows):
        if not row.diagnostic:
            above += row.required
            continue
        if path.reached < above:
            continue
        end_ms = path.window_end_ms if path.excluded_ms is None else path.excluded_ms
        until_ms = path.done_ms[above] if path.reached > above else end_ms
        from_ms = path.done_ms[above - 1] if above else path.first_ms(definition)
        seen[place] = [
            event
            for event in path.events
            if event.matched[place]
            and (from_ms is None or from_ms <= event.late_ms)
            and (until_ms is None or event.at_ms <= until_ms)
        ]
    return seen


def fills_row(row: Row, place: int, seen: Sequence[MatchedEvent]) -> bool:
    """Whether a diagnostic row counts a unit. place: the row's index. seen: the row's events."""
    if row.all_of:
        filled = frozenset[int]().union(*(event.matched[place] for event in seen))
        return len(filled) == len(row.matches)
    return bool(seen)


def coarse_times(definition: Definition, events: Sequence[MatchedEvent]) -> int:
    """Count events that match a step and whose whole second contains another such event."""
    rows = [row for row, _ in required_rows(definition)]
    own = [event for event in events if any(event.matched[row] for row in rows)]
    seconds = Counter(event.at_ms // 1000 for event in own)
    return sum(event.coarse and seconds[event.at_ms // 1000] > 1 for event in own)


def chosen_path(
    definition: Definition,
    events: Sequence[MatchedEvent],
    start_ms: int | None,
    end_ms: int | None,
    check: Callable[[], None] = lambda: None,
    *,
    is_filtered: bool = True,
) -> FunnelPath | None:
    """Return the path that counts for a unit, if its entry is inside the period and may count.

    For an attempt it is the first path (R12, R13); for a visitor, the path that leads furthest,
    among equals one that is not excluded, and the earliest of those. check: called for each path;
    raises when no time is left.
    is_filtered: whether an entry must pass the query's entry filters.
    """

    def inside(path: FunnelPath) -> bool:
        check()
        may_count = path.entry.passes or not is_filtered
        return may_count and is_in_period(path.entry_ms, start_ms, end_ms)

    if definition.counting_unit is CountingUnit.ATTEMPT:
        first = next(funnel_paths(definition, events), None)
        return first if first is not None and inside(first) else None
    return max(
        islice(filter(inside, funnel_paths(definition, events)), _max_entries(definition, events)),
        key=lambda path: (path.reached, path.excluded_by is None),
        default=None,
    )


def _max_entries(definition: Definition, events: Sequence[MatchedEvent]) -> int | None:
    """Return the maximum number of competing entries, as in a report; None for no limit."""
    if (
        definition.sequence_property is None
        and not definition.excludes
        and not definition.in_step_order
        and not any(row.all_of for _, row in required_rows(definition))
        and not any(event.coarse and any(event.matched) for event in events)
    ):
        return None
    matched = max(1, sum(any(event.matched) for event in events))
    return max(1, MAX_COMPARISONS // (matched * definition.most_readings))


def is_in_period(at_ms: int, start_ms: int | None, end_ms: int | None) -> bool:
    return (start_ms is None or start_ms <= at_ms) and (end_ms is None or at_ms < end_ms)
