"""The rules for one unit of a funnel whose steps may come in any order.

Written from docs/funnels.md, "Any order". Each rule is evaluated in the most direct way: every
number of steps comes from a new search for the largest assignment of rows to different events.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tests.funnels.reference.runs import Funnel, Instant, Row, Run, UnitEvent, agreed, is_late


def runs_in_any_order(funnel: Funnel, events: Sequence[UnitEvent]) -> Iterator[Run]:
    """Yield a run for each time at which an event matches a step. An attempt has only one."""
    entries = [event for event in events if event.is_required(funnel)]
    for at_ms in sorted({event.at_ms for event in entries}):
        together = [event for event in entries if event.at_ms == at_ms]
        yield run_from(funnel, events, together)
        if funnel.counts_attempts:
            return


def run_from(funnel: Funnel, events: Sequence[UnitEvent], together: Sequence[UnitEvent]) -> Run:
    """Return the run that begins with events of one time."""
    entry = min(together, key=lambda event: preference(funnel, event))
    values, compared = entry.values, entry.compared
    if len(together) > 1:
        values = agreed([event.values for event in together])
        compared = agreed([event.compared for event in together])
    passes = all(holds(value) for holds, value in zip(funnel.conditions, compared, strict=True))
    run = Run(entry, [entry], values, passes, len(together) > 1, [entry.at_ms], [])
    inside = [
        event
        for event in events
        if instant(run, event) >= entry.start and not is_late(funnel, run, event)
    ]
    exclusions = [
        event
        for event in inside
        if instant(run, event) > entry.start and is_exclusion(funnel, event)
    ]
    exclusions.sort(key=lambda event: (instant(run, event), preference(funnel, event)))
    read = [event for event in inside if event.is_required(funnel)]
    if exclusions:
        end = instant(run, exclusions[0])
        read = [event for event in read if instant(run, event) < end]
    read.sort(key=lambda event: (instant(run, event), preference(funnel, event)))
    times: list[Instant] = []
    for index, event in enumerate(read):
        if most_rows(funnel.steps, read[: index + 1]) > len(times):
            times.append(instant(run, event))
            run.accepted += [event] if len(times) > 1 else []
            run.served.append((len(times), event))
    run.done_ms = [ms for ms, _ in times]
    run.options = [options_of(funnel, run, step, read) for step in funnel.steps]
    if exclusions and run.reached < len(funnel.steps):
        run.excluded_by = exclusions[0]
        run.tied += [
            event
            for event in inside
            if instant(run, event) == instant(run, exclusions[0])
            and event.is_required(funnel)
            and not is_exclusion(funnel, event)
        ]
    run.tied += [
        event
        for event in inside
        if instant(run, event) == entry.start
        and is_exclusion(funnel, event)
        and not event.is_required(funnel)
    ]
    return run


def instant(run: Run, event: UnitEvent) -> Instant:
    """The instant at which an event counts. All events of the entry's time count with the entry."""
    return event.start if event.at_ms == run.entry.at_ms else event.end


def preference(funnel: Funnel, event: UnitEvent) -> Any:
    """Sort key among events of one instant: the fewest rows first, then as for given order."""
    _, _, *rest = event.rank(funnel, funnel.steps[0])
    return sum(bool(event.satisfied[step.position]) for step in funnel.steps), *rest, event.id


def is_exclusion(funnel: Funnel, event: UnitEvent) -> bool:
    return any(row.is_exclusion and event.satisfied[row.position] for row in funnel.rows)


def most_rows(rows: Sequence[Row], events: Sequence[UnitEvent]) -> int:
    """The largest number of rows that different events can serve, one row an event."""
    served: dict[str, Row] = {}  # by the event that serves it

    def finds_event(row: Row, tried: set[str]) -> bool:
        for event in events:
            if event.satisfied[row.position] and event.id not in tried:
                tried.add(event.id)
                if event.id not in served or finds_event(served[event.id], tried):
                    served[event.id] = row
                    return True
        return False

    return sum(finds_event(row, set()) for row in rows)


def done_rows(rows: Sequence[Row], events: Sequence[UnitEvent]) -> list[Row]:
    """The rows of the largest assignment that is first in the order of the rows."""
    done: list[Row] = []
    for row in rows:
        if most_rows([*done, row], events) > len(done):
            done.append(row)
    return done


def options_of(funnel: Funnel, run: Run, row: Row, read: Collection[UnitEvent]) -> set[int]:
    """The option that counts for a row: the first one that its earliest events match. Empty if the
    row was not done.
    """
    events = list(read)
    if row not in done_rows(funnel.steps, events):
        return set()
    own = [event for event in events if event.satisfied[row.position]]
    earliest = min(instant(run, event) for event in own)
    return {
        min(event.satisfied[row.position][0] for event in own if instant(run, event) == earliest)
    }
