"""The events that units have soon after a step, for those units that can be compared by them.

Written from docs/reports.md, "Drivers of a loss".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from tests.funnels.reference.history import Event
from tests.funnels.reference.report import Unit, Units, is_settled, unit_event
from tests.funnels.reference.runs import Run


@dataclass(frozen=True, slots=True)
class ComparedUnit:
    """A settled unit that has not continued before the events of all others end.

    events: kind and name of each of its events. is_lost: whether it got no further.
    """

    is_lost: bool
    events: frozenset[tuple[str, str]]


def median_ms(runs: Mapping[Unit, Run], step: int) -> float | None:
    """The median time from a step to the next one; None if no unit continued."""
    took = [
        run.done_ms[step] - run.done_ms[step - 1] for run in runs.values() if run.reached > step
    ]
    return median(took) if took else None


def compared_units(
    units: Units,
    runs: Mapping[Unit, Run],
    step: int,
    within_ms: int,
    evaluated_at_ms: int,
    *,
    of_visitors: bool,
) -> dict[Unit, ComparedUnit]:
    """Return the units that can be compared by the events after a step.

    runs: the run of each counted unit. of_visitors: use all events of the unit's visitors.
    """
    window_ms = units.funnel.window_ms
    compared = {}
    for unit, run in runs.items():
        if run.reached < step or run.is_excluded or not is_settled(units, run, evaluated_at_ms):
            continue
        since_ms = run.done_ms[step - 1]
        until_ms = since_ms + within_ms
        has_continued = run.reached > step and run.done_ms[step] < until_ms
        if has_continued or (window_ms is not None and until_ms > run.entry_ms + window_ms + 1):
            continue
        events = frozenset(
            (event.kind, event.name)
            for event in events_of(units, unit, of_visitors=of_visitors)
            if is_between(units, event, since_ms, until_ms)
        )
        compared[unit] = ComparedUnit(run.reached == step, events)
    return compared


def events_of(units: Units, unit: Unit, *, of_visitors: bool) -> list[Event]:
    """The events of a unit, or all events of the visitors of its events that match a row."""
    history = units.history(unit)
    if of_visitors:
        visitors = {units.visitors[event.id] for event in history if any(event.satisfied)}
        return [event for event in units.events if units.visitors[event.event_id] in visitors]
    ids = {event.id for event in history}
    return [event for event in units.events if event.event_id in ids]


def is_between(units: Units, event: Event, since_ms: int, until_ms: int) -> bool:
    """Whether an event comes after one time and before another. An event at the first time does
    not, because it may have completed the step.
    """
    timed = unit_event(units.definition, event)
    return timed.last_ms > since_ms and timed.at_ms != since_ms and timed.at_ms < until_ms
