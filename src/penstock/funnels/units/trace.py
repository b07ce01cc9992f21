"""The counting rules in plain Python, for one unit, with the decision on each of its events.

This is the readable specification of docs/funnels.md. The engine's statement applies the same rules
to all units at once (`penstock.funnels.statements.fold`). The property tests compare both with an
evaluation that shares no code with them (tests/funnels/reference). "R7" and the like are the
numbers of the attempt counting rules.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

from penstock.funnels.definitions.model import CountingUnit, Definition, Row
from penstock.funnels.statements.entries import MAX_COMPARISONS, MAX_TOGETHER
from penstock.funnels.units.any_order import paths_in_any_order
from penstock.funnels.units.path import (
    SERVED,
    Decision,
    FunnelPath,
    MatchedEvent,
    Verdict,
    entry_values,
    gaps_of,
    is_provably_after,
    passes,
    rank,
    required_rows,
)


def funnel_paths(definition: Definition, events: Sequence[MatchedEvent]) -> Iterator[FunnelPath]:
    """Yield a path for each completion of step 1, or for each run if every run counts, earliest
    first.

    events: the events of one unit.
    """
    row_index, step = required_rows(definition)[0]
    if definition.in_any_order:
        yield from paths_in_any_order(definition, events)
        return
    events = sorted(events, key=lambda event: (*event.order[:4], rank(definition, event, 0)))
    sequel = _Sequel(definition, events)
    filled: frozenset[int] = frozenset()
    filled_before: frozenset[int] = frozenset()
    verdicts: dict[str, Verdict] = {}
    now_ms, now_index, number = None, 0, None
    run: FunnelPath | None = None
    limit, possible = _max_possible_runs(definition, events), 0
    limits_runs = _max_entries(definition, events) is None
    index = furthest = -1
    while (index := index + 1) < len(events):
        event = events[index]
        if event.at_ms != now_ms:
            now_ms, now_index, filled_before = event.at_ms, index, filled
        if event.matched[row_index] and definition.repeat and index > furthest:
            furthest = index
            if not filled and possible >= limit:
                return
            possible += 0 if limits_runs else 1 + (step.all_of and event.number is not None)
        if run is not None and not _is_after_end(definition, run, event):
            continue
        matches = event.matched[row_index] - filled
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
            if other.matched[row_index] - filled_before
        ]
        verdicts[event.event_id] = Verdict(Decision.ENTRY, 1, matches, completes=True)
        start = _Start(index, matches, number, candidates, verdicts)
        path = _follow(definition, events, sequel, start)
        yield path
        if definition.repeat:
            run, possible = path, possible + limits_runs
            now_ms, index = None, _first_after(events, path, len(required_rows(definition))) - 1
        filled, filled_before, number, verdicts = frozenset(), frozenset(), None, {}


def _first_after(events: Sequence[MatchedEvent], run: FunnelPath, steps: int) -> int:
    """Return the index of the first event that may come after the end of a run."""
    end_ms = run.window_end_ms
    if run.excluded_ms is not None:
        end_ms = run.excluded_ms
    elif run.reached == steps:
        end_ms = run.done_ms[-1]
    assert end_ms is not None  # A funnel that counts every run has a window.
    return bisect_left(events, end_ms, key=lambda event: event.at_ms)


def _is_after_end(definition: Definition, run: FunnelPath, event: MatchedEvent) -> bool:
    """Whether an event is provably after the end of a run: its completion, its exclusion, or the
    end of its window.
    """
    if run.excluded_by is not None:
        return is_provably_after(event.order, run.excluded_by.late_order)
    if run.reached == len(required_rows(definition)):
        return is_provably_after(event.order, run.done[-1])
    return not run.in_window(event.at_ms)


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
        self.gaps = [gaps_of(definition, event) for event in self.events]
        self.positions = [
            [
                index
                for index, event in enumerate(self.events)
                if event.matched[row_index] or step in self.gaps[index]
            ]
            for step, (row_index, _) in enumerate(required_rows(definition))
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
    is_selected = passes(definition, entry, start.candidates, tied=tied)
    path = FunnelPath(
        entry=entry,
        values=values,
        passes=is_selected,
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
        _reading_in_step_order(definition, path, sequel)
        if in_step_order
        else _reading(path, sequel, index)
    )
    for index in reading:
        row_index, step = steps[path.reached]
        event = sequel.events[index]
        refused = verdicts.get(event.event_id)
        if refused is not None and (not in_step_order or refused.decision in SERVED):
            continue
        next_step = path.reached + 1
        matches = event.matched[row_index] - filled
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
        exclusion = None
        if is_proven:
            exclusion = _exclusion_at_once(path, sequel, index, number)
        if exclusion is not None:
            _exclude(path, sequel, exclusion, row_index, filled, number)
            break
        if not in_step_order:
            matches -= _served_by_others(definition, path, sequel, index)
            if not matches:
                continue
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


def _served_by_others(
    definition: Definition, path: FunnelPath, sequel: _Sequel, index: int
) -> frozenset[int]:
    """Return the matches of the next step that other events serve before an event, if the order of
    the events is not known. For a step that is not a group, these are all matches or none.
    """
    step = path.reached
    row_index, row = required_rows(definition)[step]
    if sequel.events[index].number is not None:
        return frozenset()
    own = rank(definition, sequel.events[index], step)
    served = frozenset[int]()
    for other in sequel.at_once(index):
        event = sequel.events[other]
        if (
            sequel.orders[other][:4] == sequel.orders[index][:4]
            and path.in_window(event.at_ms)
            and not _is_used(path, event)
            and rank(definition, event, step) < own
        ):
            served |= event.matched[row_index]
    return frozenset(range(len(row.matches))) if served and not row.all_of else served


def _reading_in_step_order(
    definition: Definition, path: FunnelPath, sequel: _Sequel
) -> Iterator[int]:
    """Yield the indexes of the events from the entry's time on.

    Events of one time are read again after each completed step, because each may follow it.
    """
    index = bisect_left(sequel.orders, path.entry.order[:2])
    while index < len(sequel.events):
        together = list(sequel.at_once(index))
        reached, is_few = 0, len(together) <= MAX_TOGETHER
        while reached != path.reached and path.reached < len(definition.steps):
            reached = path.reached
            for at in _in_step_order(definition, sequel, together, reached if is_few else None):
                yield at
                if path.reached != reached and is_few:
                    break
            else:
                break
        index = together[-1] + 1


def _in_step_order(
    definition: Definition, sequel: _Sequel, together: Sequence[int], reached: int | None
) -> list[int]:
    """Return events of one time as they are read after a step. Of the events without a number,
    exclusions come first. reached: number of completed steps; None to ignore the steps.
    """

    def key(index: int) -> tuple[Any, ...]:
        event, order = sequel.events[index], sequel.orders[index][:4]
        if reached is None:
            return order, rank(definition, event, 0)
        is_step = event.number is None and reached not in sequel.gaps[index]
        return order, is_step, rank(definition, event, reached)

    return sorted(together, key=key)


def _is_unordered(event: MatchedEvent, path: FunnelPath) -> bool:
    """Whether an event has the time of the last completion, and not both have usable numbers."""
    order, last = event.late_order, path.done[-1]
    return order[:2] == last[:2] and (order[2] or last[2])


def _is_used(path: FunnelPath, event: MatchedEvent) -> bool:
    """Whether an event completed a step or filled a part of a step."""
    verdict = path.verdicts.get(event.event_id)
    return verdict is not None and verdict.decision in SERVED


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
            and path.in_window(event.at_ms)
            and not _is_used(path, event)
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
    row_index: int,
    filled: frozenset[int],
    number: int | None,
) -> None:
    """End a path at an exclusion. Events of the next step whose order is not proven are ties.

    index: index of the exclusion. row_index: index of the next step's row. filled: the filled
    parts of that row.
    """
    exclusion, step = sequel.events[index], path.reached
    path.excluded_by = exclusion
    path.verdicts[exclusion.event_id] = Verdict(Decision.EXCLUSION, step, excludes=True)
    for other in sequel.at_once(index):
        event = sequel.events[other]
        matches = event.matched[row_index] - filled
        if (
            matches
            and path.in_window(event.at_ms)
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
    row_index, _ = steps[path.reached]
    for earlier in takewhile(
        lambda earlier: sequel.orders[earlier][:2] == path.done[-1][:2], range(index, -1, -1)
    ):
        event, excludes = sequel.events[earlier], path.reached in sequel.gaps[earlier]
        if (
            (event.matched[row_index] or excludes)
            and path.in_window(event.at_ms)
            and not is_provably_after(path.done[-1], event.late_order)
            and not _is_used(path, event)
        ):
            path.ties += 1
            tie = Verdict(
                Decision.UNORDERED_TIE,
                next_step,
                event.matched[row_index],
                against=last,
                excludes=excludes,
            )
            path.verdicts.setdefault(event.event_id, tie)


def _counted_matches(row: Row, matches: frozenset[int]) -> frozenset[int]:
    """Return all parts of a complete group, or the first option that matched."""
    return frozenset(range(len(row.matches))) if row.all_of else frozenset((min(matches),))


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

    For an attempt, it is the first path (R12, R13). For a visitor, it is the path that leads
    furthest; of several such paths, one that is not excluded, and then the earliest. check: called
    for each path; raises when no time is left. is_filtered: whether an entry must pass the query's
    entry filters.
    """

    def inside(path: FunnelPath) -> bool:
        check()
        may_count = path.passes or not is_filtered
        return may_count and is_in_period(path.entry_ms, start_ms, end_ms)

    if definition.counting_unit is CountingUnit.ATTEMPT:
        first = next(funnel_paths(definition, events), None)
        return first if first is not None and inside(first) else None
    best = newest = None
    paths = filter(inside, funnel_paths(definition, events))
    for path in islice(paths, _max_entries(definition, events)):
        rank = (path.reached, path.excluded_by is None)
        if best is None or rank > (best.reached, best.excluded_by is None):
            best = path
        if path.excluded_by is None:
            newest = path
    if best is not None:
        best.newest = newest
    return best


def visitor_runs(
    definition: Definition, events: Sequence[MatchedEvent], check: Callable[[], None]
) -> list[FunnelPath]:
    """Return all runs of a visitor, earliest first. events, check: see `chosen_path`."""
    runs = []
    for path in funnel_paths(definition, events):
        check()
        runs.append(path)
    return runs


def run_of(runs: Sequence[FunnelPath], event: MatchedEvent) -> FunnelPath | None:
    """Return the run that an event belongs to: a run that used or refused it, or else the last run
    that began before it. An event before the first run belongs to the first. None if there is no
    run.
    """
    for run in reversed(runs):
        verdict = run.verdicts.get(event.event_id)
        if verdict is not None and verdict.decision is not Decision.OUTSIDE_WINDOW:
            return run
    started = [run for run in runs if run.entry.order <= event.order]
    return started[-1] if started else next(iter(runs), None)


def _max_possible_runs(definition: Definition, events: Sequence[MatchedEvent]) -> int:
    """Return the maximum number of events that may begin a run, as in a report."""
    matched = _events_read(definition, events) if definition.repeat else 1
    return max(1, MAX_COMPARISONS // (matched * definition.max_readings))


def _max_entries(definition: Definition, events: Sequence[MatchedEvent]) -> int | None:
    """Return the maximum number of competing entries, as in a report; None for no limit."""
    if (
        definition.sequence_property is None
        and not definition.excludes
        and not definition.in_step_order
        and not any(row.all_of for _, row in required_rows(definition))
        and not (definition.in_any_order and definition.has_shared_events)
        and not any(event.coarse and any(event.matched) for event in events)
    ):
        return None
    matched = _events_read(definition, events)
    return max(1, MAX_COMPARISONS // (matched * definition.max_readings))


def _events_read(definition: Definition, events: Sequence[MatchedEvent]) -> int:
    """Return the number of events that a report reads; at least 1."""
    reads_all = definition.reads_all_events
    return max(1, sum(any(event.matched) or (reads_all and event.is_sent) for event in events))


def is_in_period(at_ms: int, start_ms: int | None, end_ms: int | None) -> bool:
    return (start_ms is None or start_ms <= at_ms) and (end_ms is None or at_ms < end_ms)
