"""The counting rules in plain Python, for one unit, with the decision on each of its events.

The same rules as in the engine's statement (`penstock.funnels.statements.fold`), in their own
words. They explain single units to people, and the property tests hold the statement against them.
Source: funnel semantics; "R7" and the like are the attempt counting rules.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, takewhile

from penstock.base.scalar import MISSING
from penstock.funnels.definitions.model import CountingUnit, Definition, Row
from penstock.funnels.statements.entries import MAX_COMPARISONS


class Decision(StrEnum):
    """The decision on an event. Source: contract, "Funnels"."""

    ENTRY = "entry"
    ACCEPTED = "accepted"
    SEQUENCE_SKIP = "sequenceSkip"
    UNORDERED_TIE = "unorderedTie"
    OUTSIDE_WINDOW = "outsideWindow"
    NO_MATCH = "noMatch"
    UNVERIFIED_PROVIDER = "unverifiedProvider"
    DIAGNOSTIC = "diagnostic"


SERVED = (Decision.ENTRY, Decision.ACCEPTED)
"""Decisions on events that completed a step or filled a part of one."""


Order = tuple[int, bool, bool, int, str]
"""Time in milliseconds, whether a whole second ends with it, whether without a usable number, the
number, the event ID."""


@dataclass(frozen=True, slots=True)
class MatchedEvent:
    """An event as one funnel reads it.

    number: its usable sequence number. invalid: it has a sequence value that is not usable.
    matched: for each row of the definition, the indexes of the matches that it satisfies.
    values: tagged entry values, one per breakdown property. coarse: its time is a whole second of
    a provider whose format has nothing smaller ("Whole seconds").
    """

    event_id: str
    at_ms: int
    number: int | None
    invalid: bool
    matched: tuple[frozenset[int], ...]
    values: tuple[str, ...]
    coarse: bool = False

    @property
    def order(self) -> Order:
        """Sorts events into reading order for step 1: a whole second is its start."""
        return self.at_ms, False, *self._within_time

    @property
    def late_order(self) -> Order:
        """Sorts events into reading order for later steps: a whole second is after its end."""
        return self.late_ms, self.coarse, *self._within_time

    @property
    def late_ms(self) -> int:
        """When the event completes a later step: the last millisecond of a whole second."""
        return self.at_ms // 1000 * 1000 + 999 if self.coarse else self.at_ms

    @property
    def _within_time(self) -> tuple[bool, int, str]:
        return self.number is None, self.number or 0, self.event_id


def provably_after(order: Order, earlier: Order) -> bool:
    """Whether time, or at equal times both numbers, prove the order (R6)."""
    if order[:2] != earlier[:2]:
        return order[:2] > earlier[:2]
    return not order[2] and not earlier[2] and order[3] > earlier[3]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on an event that matches the next step.

    step: the required step, from 1. parts: of a group, the parts that the event filled. against:
    for a tie, the event that it was compared with. number: for a skip, the last accepted number.
    """

    decision: Decision
    step: int
    parts: frozenset[int] = frozenset()
    completes: bool = False
    against: MatchedEvent | None = None
    number: int | None = None


@dataclass(slots=True)
class FunnelPath:
    """The way of one unit through the funnel from one entry on.

    entry: the event that completed step 1. values: tagged entry values. candidates: the events
    that decide the values. tied: whether they decide by agreement. completed: the event that
    completed each step. done: when, in the order of reading. options: for each completed step, the
    matches that count. events: all of the unit, in reading order. later: those read after the
    entry. accepted: by rule 5, after the entry. verdicts: by event ID, for the events that matched
    the next step.
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

    @property
    def entry_ms(self) -> int:
        return self.entry.at_ms

    @property
    def done_ms(self) -> list[int]:
        """When each step was completed."""
        return [order[0] for order in self.done]

    @property
    def reached(self) -> int:
        return len(self.completed)

    @property
    def skips(self) -> int:
        return sum(verdict.decision is Decision.SEQUENCE_SKIP for verdict in self.verdicts.values())

    def first_ms(self, definition: Definition) -> int | None:
        """From when on a diagnostic row above step 1 looks; None: from the first event."""
        return None if definition.window_s is None else self.entry_ms - definition.window_s * 1000

    def is_open(self, evaluated_at_ms: int) -> bool:
        """Whether the window has not ended yet (R14)."""
        return self.in_window(evaluated_at_ms)

    def in_window(self, at_ms: int) -> bool:
        """Whether a time after the entry is inside the window, its end included."""
        return self.window_end_ms is None or at_ms <= self.window_end_ms


def required_rows(definition: Definition) -> list[tuple[int, Row]]:
    """The required steps with their indexes among the rows."""
    return [(place, row) for place, row in enumerate(definition.rows) if not row.diagnostic]


def funnel_paths(definition: Definition, events: Sequence[MatchedEvent]) -> Iterator[FunnelPath]:
    """A path for each completion of step 1, the earliest first.

    events: of one unit, in reading order.
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
            for other in _simultaneous(events, now_index)
            if other.matched[place] - filled_before
        ]
        verdicts[event.event_id] = Verdict(Decision.ENTRY, 1, matches, completes=True)
        start = _Start(index, matches, number, candidates, verdicts)
        yield _followed(definition, events, sequel, start)
        filled, filled_before, number, verdicts = frozenset(), frozenset(), None, {}


def _simultaneous(events: Sequence[MatchedEvent], first: int) -> Iterator[MatchedEvent]:
    """The events at one time. first: the index of the first of them."""
    at_ms = events[first].at_ms
    from_first = (events[index] for index in range(first, len(events)))
    return takewhile(lambda event: event.at_ms == at_ms, from_first)


class _Sequel:
    """The events of a unit in the order in which they follow an entry.

    positions: of the events that match each row: a visitor may enter thousands of times.
    """

    def __init__(self, definition: Definition, events: Sequence[MatchedEvent]) -> None:
        self.events = sorted(events, key=lambda event: event.late_order)
        self.orders = [event.late_order for event in self.events]
        self.positions = [
            [index for index, event in enumerate(self.events) if event.matched[place]]
            for place in range(len(definition.rows))
        ]


@dataclass(frozen=True, slots=True)
class _Start:
    """A completion of step 1.

    index: of the entry among the events. matches: of step 1 that the entry counts for. number: the
    last usable one of step 1. candidates: *S* of the rules. verdicts: on events up to the entry.
    """

    index: int
    matches: frozenset[int]
    number: int | None
    candidates: Sequence[MatchedEvent]
    verdicts: dict[str, Verdict]


def _followed(
    definition: Definition,
    events: Sequence[MatchedEvent],
    sequel: _Sequel,
    start: _Start,
) -> FunnelPath:
    """The path from an entry on."""
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
        options=[_counted(steps[0][1], start.matches)],
        events=events,
        later=[event for event in sequel.events[index + 1 :] if event.event_id not in verdicts],
        window_end_ms=None
        if definition.window_s is None
        else entry.at_ms + definition.window_s * 1000,
        verdicts=verdicts,
    )
    filled = frozenset[int]()
    _refuse_earlier_ties(path, steps, sequel, index)
    while path.reached < len(steps):
        place, step = steps[path.reached]
        positions = sequel.positions[place]
        following = bisect_right(positions, index)
        if following == len(positions):
            break
        index = positions[following]
        event = sequel.events[index]
        if event.event_id in verdicts:  # a whole second that served step 1
            continue
        next_step = path.reached + 1
        matches = event.matched[place] - filled
        if not matches:
            continue
        if not path.in_window(event.at_ms):
            verdicts[event.event_id] = Verdict(Decision.OUTSIDE_WINDOW, next_step, matches)
            continue
        if not provably_after(event.late_order, path.done[-1]):
            path.ties += 1
            verdicts[event.event_id] = Verdict(
                Decision.UNORDERED_TIE, next_step, matches, against=path.completed[-1]
            )
            continue
        if event.number is not None and number is not None and event.number <= number:
            verdicts[event.event_id] = Verdict(
                Decision.SEQUENCE_SKIP, next_step, matches, number=number
            )
            continue
        path.accepted.append(event)
        number = number if event.number is None else event.number
        if step.all_of:
            filled |= matches
            if len(filled) < len(step.matches):
                verdicts[event.event_id] = Verdict(Decision.ACCEPTED, next_step, matches)
                continue
        verdicts[event.event_id] = Verdict(Decision.ACCEPTED, next_step, matches, completes=True)
        path.completed.append(event)
        path.done.append(event.late_order)
        path.options.append(_counted(step, matches))
        filled = frozenset()
        _refuse_earlier_ties(path, steps, sequel, index)
    return path


def _refuse_earlier_ties(
    path: FunnelPath, steps: Sequence[tuple[int, Row]], sequel: _Sequel, index: int
) -> None:
    """Rule 3 for events that were read before the one that completed a step, at its time.

    They match the next step and served none; whether they came before or after is not known. So
    the order of arrival changes no figure. index: of the last event up to the completion.
    """
    if path.reached == len(steps):
        return
    last, next_step = path.completed[-1], path.reached + 1
    place, _ = steps[path.reached]
    for event in takewhile(
        lambda event: event.late_order[:2] == path.done[-1][:2],
        (sequel.events[earlier] for earlier in range(index, -1, -1)),
    ):
        verdict = path.verdicts.get(event.event_id)
        if (
            event.matched[place]
            and not provably_after(path.done[-1], event.late_order)
            and (verdict is None or verdict.decision not in SERVED)
        ):
            path.ties += 1
            tie = Verdict(Decision.UNORDERED_TIE, next_step, event.matched[place], against=last)
            path.verdicts.setdefault(event.event_id, tie)


def _counted(row: Row, matches: frozenset[int]) -> frozenset[int]:
    """Every part of a complete group; else the first option that matched."""
    return frozenset(range(len(row.matches))) if row.all_of else frozenset((min(matches),))


def entry_values(
    entry: MatchedEvent, candidates: Sequence[MatchedEvent]
) -> tuple[tuple[str, ...], bool]:
    """The entry values, and whether agreement decided them.

    They are the entry's own (R9, R10), or at a tie without usable order what all candidates
    agree on (R11).
    """
    numbers = [candidate.number for candidate in candidates]
    ordered = len(candidates) == 1 or (None not in numbers and len(set(numbers)) == len(numbers))
    if ordered:
        return entry.values, False
    places = range(len(entry.values))
    seen = [{candidate.values[place] for candidate in candidates} for place in places]
    return tuple(values.pop() if len(values) == 1 else MISSING for values in seen), True


def conflicts(definition: Definition, path: FunnelPath, place: int) -> list[MatchedEvent]:
    """The later events that disagree with an entry value that is not missing (R12).

    Of a visitor, who may enter again: accepted events. Of an attempt: events inside the window
    that match a required step, accepted or not. place: index of the breakdown property.
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
    """The events that each diagnostic row counts, by the row's index; no key if not reached.

    They lie between the completion of the step above and that of the next step, or the window's
    end; both ends included. Above step 1 they lie in one window before the entry. A whole second
    lies there if any of its milliseconds does.
    """
    seen: dict[int, list[MatchedEvent]] = {}
    above = 0
    for place, row in enumerate(definition.rows):
        if not row.diagnostic:
            above += 1
            continue
        if path.reached < above:
            continue
        until_ms = path.done_ms[above] if path.reached > above else path.window_end_ms
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
    """Whether a diagnostic row counts a unit. place: of the row. seen: its events there."""
    if row.all_of:
        filled = frozenset[int]().union(*(event.matched[place] for event in seen))
        return len(filled) == len(row.matches)
    return bool(seen)


def coarse_times(definition: Definition, events: Sequence[MatchedEvent]) -> int:
    """The events of a unit with a whole second in which another of its events lies.

    Of those that match a required step.
    """
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
) -> FunnelPath | None:
    """The path that counts for a unit, if its entry is inside the period.

    An attempt has only its first (R12, R13); a visitor the one that leads furthest, the earliest
    among equals. check: called for each path; raises when there is no time left.
    """

    def inside(path: FunnelPath) -> bool:
        check()
        return in_period(path.entry_ms, start_ms, end_ms)

    if definition.counting_unit is CountingUnit.ATTEMPT:
        first = next(funnel_paths(definition, events), None)
        return first if first is not None and inside(first) else None
    return max(
        islice(filter(inside, funnel_paths(definition, events)), _max_entries(definition, events)),
        key=lambda path: path.reached,
        default=None,
    )


def _max_entries(definition: Definition, events: Sequence[MatchedEvent]) -> int | None:
    """How many entries of a visitor compete, as in a report; None: all, where time decides."""
    if (
        definition.sequence_property is None
        and not any(row.all_of for _, row in required_rows(definition))
        and not any(event.coarse and any(event.matched) for event in events)
    ):
        return None
    return max(1, MAX_COMPARISONS // max(1, sum(any(event.matched) for event in events)))


def in_period(at_ms: int, start_ms: int | None, end_ms: int | None) -> bool:
    return (start_ms is None or start_ms <= at_ms) and (end_ms is None or at_ms < end_ms)
