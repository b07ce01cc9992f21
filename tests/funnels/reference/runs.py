"""The rules for one unit: its entry, its progress, and the events that diagnostic rows count.

Written from docs/funnels.md alone; it shares no code with the service. An event has two instants:
one for step 1 and one for later steps. Both are the event's time, unless that time stands for a
whole second. In that case, the instant for later steps comes after everything else in the second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.funnels.reference.matching import Value

Instant = tuple[int, int]
"""A millisecond, and a flag: 1 if the instant comes after everything else in that millisecond,
otherwise 0.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of `steps`. position: its index in the list. size: number of its matches.

    is_exclusion: whether its events exclude units that await the next step. is_strict: whether
    events of other steps exclude units that await this step. allows_nothing: whether all events but
    its own do.
    """

    position: int
    size: int
    is_group: bool
    is_diagnostic: bool
    is_exclusion: bool = False
    is_strict: bool = False
    allows_nothing: bool = False


@dataclass(frozen=True, slots=True)
class Funnel:
    """The parts of a definition that affect a single unit. window_ms: None if there is no limit.

    in_step_order: whether events of equal times count in the order of the steps. counts_runs:
    whether every run of a visitor counts. in_any_order: whether steps count in any order.
    conditions: those of the request on entry values; each is about one of `UnitEvent.compared`.
    """

    rows: Sequence[Row]
    window_ms: int | None
    counts_attempts: bool
    in_step_order: bool = False
    counts_runs: bool = False
    in_any_order: bool = False
    conditions: Sequence[Callable[[Value], bool]] = ()

    @property
    def steps(self) -> list[Row]:
        return [row for row in self.rows if not (row.is_diagnostic or row.is_exclusion)]

    def steps_above(self, row: Row) -> int:
        """Number of steps above a row."""
        return sum(step.position < row.position for step in self.steps)


@dataclass(frozen=True, slots=True)
class UnitEvent:
    """An event of a unit.

    number: its usable sequence number. is_invalid: whether the sequence property has an unusable
    value. satisfied: for each row, the positions of the matches that the event satisfies. values:
    values of the breakdown properties. compared: values that the conditions are about. is_sent:
    False for an app open that Penstock recorded itself.
    """

    id: str
    at_ms: int
    is_whole_second: bool
    number: int | None
    is_invalid: bool
    satisfied: tuple[tuple[int, ...], ...]
    values: tuple[Value, ...]
    compared: tuple[Value, ...] = ()
    is_sent: bool = True

    @property
    def last_ms(self) -> int:
        """The last millisecond of the time that the event states: its own, or the end of the whole
        second.
        """
        return self.at_ms // 1000 * 1000 + 999 if self.is_whole_second else self.at_ms

    @property
    def start(self) -> Instant:
        """The instant for step 1."""
        return self.at_ms, 0

    @property
    def end(self) -> Instant:
        """The instant for later steps."""
        return self.last_ms, int(self.is_whole_second)

    def is_required(self, funnel: Funnel) -> bool:
        """Whether the event matches a required step."""
        return any(self.satisfied[step.position] for step in funnel.steps)

    def rank(self, funnel: Funnel, step: Row) -> Any:
        """Sort key among events that could serve a step at the same time: the fewest later rows
        first, then the first match. Then the rows and values that the funnel reads decide, and
        events that are equal in them are interchangeable. Events with equal numbers have no rank.
        """
        if self.number is not None:
            return ()
        rows = [row for row in funnel.rows if not row.is_diagnostic]
        later = [row for row in rows if row.position > step.position]
        bits, size = 0, 0
        for row in funnel.rows:
            if not row.is_diagnostic:
                bits |= sum(1 << (size + part) for part in self.satisfied[row.position])
            size += row.size
        return (
            sum(bool(self.satisfied[row.position]) for row in later),
            min(self.satisfied[step.position], default=0),
            bits,
            self.is_whole_second,
            tuple(("", "") if value is None else value for value in self.values),
        )

    def excludes(self, funnel: Funnel, reached: int) -> bool:
        """Whether the event excludes a unit that has completed `reached` steps, but not all."""
        if any(
            row.is_exclusion and funnel.steps_above(row) == reached and self.satisfied[row.position]
            for row in funnel.rows
        ):
            return True
        awaited = funnel.steps[reached]
        if self.satisfied[awaited.position]:
            return False
        return (awaited.is_strict and self.is_required(funnel)) or (
            awaited.allows_nothing and self.is_sent
        )


@dataclass(frozen=True, slots=True)
class Position:
    """An event's position in reading order: by instant, usable number, then event ID."""

    instant: Instant
    event: UnitEvent

    def __lt__(self, other: "Position") -> bool:
        return self._key() < other._key()

    @property
    def known_order(self) -> tuple[Instant, bool, int]:
        """Sort key without the event ID: nothing orders the events with equal keys."""
        number = self.event.number
        return self.instant, number is None, number or 0

    def _key(self) -> tuple[tuple[Instant, bool, int], str]:
        return self.known_order, self.event.id

    def proves(self, earlier: "Position") -> bool:
        """Whether this position is proven to come after an earlier one."""
        if self.instant != earlier.instant:
            return self.instant > earlier.instant
        number, before = self.event.number, earlier.event.number
        return number is not None and before is not None and number > before


@dataclass
class Run:
    """The progress of a unit after one entry.

    began: the events that filled step 1. values: the cohort. passes: whether its entry values meet
    the conditions of the request. by_agreement: whether the order of several first events was
    unknown. done_ms: when each step was completed. options: for each completed step, the matches
    that count; in any order, for each step. accepted: events after the entry that fulfilled part of
    a step. excluded_by: the event that excluded the unit, if any. assumed: accepted events whose
    order is not proven. ended: position of the event that completed or excluded the run; None if
    only the end of its window ends it. others: the runs of a visitor's other entries. served: the
    accepted events, with the step of each. breakdown: the values of a breakdown that is not by the
    entry.
    """

    entry: UnitEvent
    began: list[UnitEvent]
    values: tuple[Value, ...]
    passes: bool
    by_agreement: bool
    done_ms: list[int]
    options: list[set[int]]
    accepted: list[UnitEvent] = field(default_factory=list)
    skipped: list[UnitEvent] = field(default_factory=list)
    tied: list[UnitEvent] = field(default_factory=list)
    excluded_by: UnitEvent | None = None
    assumed: list[UnitEvent] = field(default_factory=list)
    ended: Position | None = None
    others: list["Run"] = field(default_factory=list)
    served: list[tuple[int, UnitEvent]] = field(default_factory=list)
    breakdown: Any = None

    @property
    def is_excluded(self) -> bool:
        return self.excluded_by is not None

    @property
    def entry_ms(self) -> int:
        return self.done_ms[0]

    @property
    def reached(self) -> int:
        return len(self.done_ms)


def counted_run(runs: Iterable[Run], start_ms: int | None, end_ms: int | None) -> Run | None:
    """Return the run that counts for a unit; None if it has no entry in the period that passes the
    filters of the request.

    An attempt enters once. For a visitor, the entry that leads furthest counts; if several do, one
    that is not excluded, and the earliest of those. runs: all runs of the unit, in order of entry.
    """
    inside = [
        run
        for run in runs
        if (start_ms is None or start_ms <= run.entry_ms)
        and (end_ms is None or run.entry_ms < end_ms)
        and run.passes
    ]
    # `max` returns the first of equal runs
    best = max(inside, key=lambda run: (run.reached, not run.is_excluded), default=None)
    if best is not None:
        best.others = [run for run in inside if run is not best]
    return best


def all_runs(funnel: Funnel, events: Sequence[UnitEvent]) -> Iterator[Run]:
    """Yield a run for every completion of step 1, in order of entry. An attempt has only one.

    If every run counts, a run begins only with events that are proven to come after the end of the
    run before it.
    """
    step = funnel.steps[0]
    positions = sorted(
        (Position(event.start, event) for event in events),
        key=lambda position: (
            *position.known_order,
            position.event.rank(funnel, step),
            position.event.id,
        ),
    )
    if not funnel.counts_runs:
        yield from runs_from(funnel, events, positions)
        return
    while (run := next(runs_from(funnel, events, positions), None)) is not None:
        yield run
        positions = [position for position in positions if is_after(funnel, run, position)]


def runs_from(
    funnel: Funnel, events: Sequence[UnitEvent], positions: Sequence[Position]
) -> Iterator[Run]:
    """Yield a run for every completion of step 1 by events at these positions."""
    step = funnel.steps[0]
    parts: dict[int, UnitEvent] = {}
    for position in positions:
        event = position.event
        for part in served(step, event, parts):
            parts[part] = event
        if event in parts.values() and is_complete(step, parts):
            run = begin(funnel, events, event, parts)
            follow(funnel, events, run)
            yield run
            if funnel.counts_attempts:
                return
            parts = {}


def is_after(funnel: Funnel, run: Run, position: Position) -> bool:
    """Whether a position is proven to come after the end of a run: its completion, its exclusion,
    or the end of its window.
    """
    if run.ended is not None:
        return position.proves(run.ended)
    return is_late(funnel, run, position.event)


def events_of_run(funnel: Funnel, events: Sequence[UnitEvent], run: Run) -> list[UnitEvent]:
    """The events of a visitor from the beginning of a run to its end, both inclusive."""
    first_ms = min(event.at_ms for event in run.began)
    if run.ended is not None:
        last_ms = run.ended.event.last_ms
        return [event for event in events if first_ms <= event.at_ms <= last_ms]
    return [
        event for event in events if first_ms <= event.at_ms and not is_late(funnel, run, event)
    ]


def served(step: Row, event: UnitEvent, filled: dict[int, UnitEvent]) -> list[int]:
    """Return the step's matches that an event fulfils: open parts of a group, or one option."""
    satisfied = event.satisfied[step.position]
    if step.is_group:
        return [part for part in satisfied if part not in filled]
    return list(satisfied[:1])


def is_complete(step: Row, filled: dict[int, UnitEvent]) -> bool:
    return len(filled) == step.size if step.is_group else bool(filled)


def begin(
    funnel: Funnel, events: Sequence[UnitEvent], entry: UnitEvent, parts: dict[int, UnitEvent]
) -> Run:
    """Create a run at its entry, including its cohort. parts: the events that filled step 1.

    If several events of step 1 have the entry's time and their numbers do not show which was first,
    a value counts only if all of them agree on it.
    """
    step = funnel.steps[0]
    filled_before = {part for part, event in parts.items() if event.start < entry.start}
    rivals = [
        event
        for event in events
        if event.start == entry.start
        and any(part not in filled_before for part in event.satisfied[step.position])
    ]
    numbers = [event.number for event in rivals]
    is_ordered = len(rivals) == 1 or (None not in numbers and len(set(numbers)) == len(numbers))
    values, compared = entry.values, entry.compared
    if not is_ordered:
        values = agreed([rival.values for rival in rivals])
        compared = agreed([rival.compared for rival in rivals])
    passes = all(holds(value) for holds, value in zip(funnel.conditions, compared, strict=True))
    began = list(parts.values())
    run = Run(entry, began, values, passes, not is_ordered, [entry.at_ms], [set(parts)])
    run.served = [(1, event) for event in unique(began) if event is not entry] + [(1, entry)]
    return run


def unique(events: Sequence[UnitEvent]) -> list[UnitEvent]:
    """The events without repetitions: one may fill several parts."""
    return list({event.id: event for event in events}.values())


def agreed(values: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
    """The values on which several events agree; None for the others."""
    return tuple(
        each[0] if all(value == each[0] for value in each) else None
        for each in zip(*values, strict=True)
    )


def follow(funnel: Funnel, events: Sequence[UnitEvent], run: Run) -> None:
    """Read the events after the entry, checking each against the next step."""
    steps = funnel.steps
    reading = sorted(
        Position(event.end, event) for event in events if not is_late(funnel, run, event)
    )
    used = list(run.began)
    numbers = [event.number for event in used if event.number is not None]
    last_number = numbers[-1] if numbers else None
    last = entry = Position(run.entry.start, run.entry)
    filled: dict[int, UnitEvent] = {}
    read = [position for position in reading if position < entry]
    note_ties_before(funnel, read, run, last, used)
    for position in reading_order(funnel, reading, entry, run):
        event = position.event
        read.append(position)
        if run.reached == len(steps):
            return
        step = steps[run.reached]
        if event in used:
            continue
        matches = served(step, event, filled)
        excludes = event.excludes(funnel, run.reached)
        if not matches and not excludes:
            continue
        is_proven = position.proves(last)
        is_assumed = funnel.in_step_order and not excludes and is_unordered(position, last)
        if not is_proven and not is_assumed:
            if not last.proves(position):
                note(funnel, run, run.tied, event)
        elif is_stale(event, last_number):
            note(funnel, run, run.skipped, event)
        elif is_proven and (
            exclusion := exclusion_beside(funnel, reading, run, position, last, used, last_number)
        ):
            run.excluded_by, run.ended = exclusion.event, exclusion
            for other in reading:
                if (
                    other.instant == exclusion.instant
                    and served(step, other.event, filled)
                    and other.event not in used
                    and not other.event.excludes(funnel, run.reached)
                    and not is_stale(other.event, last_number)
                    and not (other.proves(exclusion) or exclusion.proves(other))
                ):
                    note(funnel, run, run.tied, other.event)
            return
        else:
            run.accepted.append(event)
            run.served.append((run.reached + 1, event))
            if not is_proven:
                run.assumed.append(event)
            used.append(event)
            filled.update(dict.fromkeys(matches, event))
            last_number = last_number if event.number is None else event.number
            if is_complete(step, filled):
                run.done_ms.append(event.last_ms)
                run.options.append(set(filled))
                last, filled = position, {}
                run.ended = last if run.reached == len(steps) else None
                note_ties_before(funnel, read, run, last, used)


def reading_order(
    funnel: Funnel, reading: Sequence[Position], entry: Position, run: Run
) -> Iterator[Position]:
    """Yield the positions that follow an entry. The rank of the awaited step orders events that
    nothing else orders.

    In step order, the events of one instant are read again whenever a step was completed. This
    includes the instant of the entry. Exclusions without a number are read before other events
    without one.
    """
    if funnel.in_step_order:
        yield from reading_in_step_order(funnel, reading, entry, run)
        return
    following = [position for position in reading if not position < entry]
    for known_order in sorted({position.known_order for position in following}):
        waiting = [position for position in following if position.known_order == known_order]
        while waiting and run.reached < len(funnel.steps):
            step = funnel.steps[run.reached]
            first = min(waiting, key=lambda own: (own.event.rank(funnel, step), own.event.id))
            waiting.remove(first)
            yield first


def reading_in_step_order(
    funnel: Funnel, reading: Sequence[Position], entry: Position, run: Run
) -> Iterator[Position]:
    for instant in sorted({position.instant for position in reading}):
        if instant < entry.instant:
            continue
        together = [position for position in reading if position.instant == instant]
        reached = 0
        while reached != run.reached and run.reached < len(funnel.steps):
            reached = run.reached
            step = funnel.steps[reached]
            for position in sorted(
                together,
                key=lambda own: (
                    *own.known_order,
                    own.event.number is None and not own.event.excludes(funnel, reached),
                    own.event.rank(funnel, step),
                    own.event.id,
                ),
            ):
                yield position
                if run.reached != reached:
                    break


def is_unordered(position: Position, last: Position) -> bool:
    """Whether two positions have equal instants, and not both have a usable number."""
    numbers = (position.event.number, last.event.number)
    return position.instant == last.instant and None in numbers


def note(funnel: Funnel, run: Run, refused: list[UnitEvent], event: UnitEvent) -> None:
    """Note a refused event. An event that is read several times is refused once."""
    if not (funnel.in_step_order and event in [*run.tied, *run.skipped]):
        refused.append(event)


def is_stale(event: UnitEvent, last_number: int | None) -> bool:
    """Whether the event's number is not greater than the last one that counted."""
    return event.number is not None and last_number is not None and event.number <= last_number


def exclusion_beside(
    funnel: Funnel,
    reading: Sequence[Position],
    run: Run,
    position: Position,
    last: Position,
    used: list[UnitEvent],
    last_number: int | None,
) -> Position | None:
    """Return the exclusion that comes before an event, or is the event itself.

    It has the same instant, and is not proven to come later. Like the event, it is proven to come
    after the last step, and its number is not stale.
    """
    for other in reading:
        if (
            other.instant == position.instant
            and other.event not in used
            and other.event.excludes(funnel, run.reached)
            and other.proves(last)
            and not is_stale(other.event, last_number)
            and not other.proves(position)
        ):
            return other
    return None


def is_late(funnel: Funnel, run: Run, event: UnitEvent) -> bool:
    """Whether the event's stated time is after the end of the window."""
    return funnel.window_ms is not None and event.at_ms > run.entry_ms + funnel.window_ms


def note_ties_before(
    funnel: Funnel, read: Sequence[Position], run: Run, last: Position, used: list[UnitEvent]
) -> None:
    """Count unordered ties among the events that share the last step's instant and were read before
    it. read: the positions that were read so far.

    Such an event is a tie if it matches the next step or would exclude the unit before it,
    fulfilled no step, and is not proven to come first.
    """
    if run.reached == len(funnel.steps) or funnel.in_step_order:
        return
    step = funnel.steps[run.reached]
    for position in read:
        if (
            position.instant == last.instant
            and position.event not in used
            and (served(step, position.event, {}) or position.event.excludes(funnel, run.reached))
            and not last.proves(position)
        ):
            run.tied.append(position.event)


def seen_by(funnel: Funnel, events: Sequence[UnitEvent], run: Run, row: Row) -> list[UnitEvent]:
    """Return the events of a run that a diagnostic row counts."""
    above = funnel.steps_above(row)
    if run.reached < above:
        return []
    window_end_ms = None if funnel.window_ms is None else run.entry_ms + funnel.window_ms
    if run.excluded_by is not None:
        window_end_ms = run.excluded_by.last_ms
    if above:
        from_ms: int | None = run.done_ms[above - 1]
        to_ms = run.done_ms[above] if run.reached > above else window_end_ms
    else:
        from_ms = None if funnel.window_ms is None else run.entry_ms - funnel.window_ms
        to_ms = run.entry_ms
    return [
        event
        for event in events
        if event.satisfied[row.position]
        and (from_ms is None or event.last_ms >= from_ms)
        and (to_ms is None or event.at_ms <= to_ms)
    ]


def is_seen(row: Row, events: Sequence[UnitEvent]) -> bool:
    """Whether a diagnostic row counts a run's unit. A group needs an event for each part."""
    if not row.is_group:
        return bool(events)
    parts = {part for event in events for part in event.satisfied[row.position]}
    return len(parts) == row.size


def conflicts(funnel: Funnel, events: Sequence[UnitEvent], run: Run, position: int) -> bool:
    """Whether a later event has a different value of a breakdown property than the entry.

    For an attempt, these are all step events inside the window; for a visitor, only accepted
    events. All of them are proven to come after the entry.
    """
    if run.breakdown is not None:
        return bool(run.breakdown.conflicts[position])
    entry = Position(run.entry.start, run.entry)
    later: Sequence[UnitEvent] = run.accepted
    if funnel.counts_attempts:
        later = [
            event
            for event in events
            if event not in run.began
            and event.is_required(funnel)
            and not is_late(funnel, run, event)
        ]
    later = [event for event in later if Position(event.end, event).proves(entry)]
    if funnel.in_any_order:
        later = [event for event in later if event.at_ms != run.entry_ms]
    values = {event.values[position] for event in later} - {None}
    return run.values[position] is not None and bool(values - {run.values[position]})


def coarse_times(funnel: Funnel, events: Sequence[UnitEvent]) -> int:
    """Count the step events with whole-second times that share their second with another such
    event.
    """
    required = [event for event in events if event.is_required(funnel)]
    return sum(
        event.is_whole_second
        and any(other.at_ms // 1000 == event.at_ms // 1000 for other in required if other != event)
        for event in required
    )
