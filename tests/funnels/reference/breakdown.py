"""The values by which a unit is broken down, where they are not those of its entry.

Written from docs/funnels.md, "Breakdown by another step".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.funnels.reference.any_order import instant
from tests.funnels.reference.matching import Value
from tests.funnels.reference.runs import Funnel, Instant, Run, UnitEvent, agreed


@dataclass(frozen=True, slots=True)
class BreakdownValues:
    """The values of a unit, whether tied events had to agree on any, and for each whether another
    accepted event contradicts it.
    """

    values: tuple[Value, ...]
    by_agreement: bool
    conflicts: tuple[bool, ...]


def breakdown_values(
    funnel: Funnel, at: str | int, events: Sequence[UnitEvent], run: Run
) -> BreakdownValues:
    """Return the values of a unit. at: first, last or the number of a step. events: all events of
    the unit.
    """
    if isinstance(at, int):
        return at_step(funnel, at, events, run)
    chosen = [at_end(funnel, at, run, position) for position in range(len(run.values))]
    values = tuple(value for value, _ in chosen)
    conflicts = tuple(
        len({event.values[position] for _, event in run.served} - {None}) > 1
        for position in range(len(run.values))
    )
    return BreakdownValues(values, any(tied for _, tied in chosen), conflicts)


def at_step(funnel: Funnel, step: int, events: Sequence[UnitEvent], run: Run) -> BreakdownValues:
    nothing = tuple(None for _ in run.values)
    if run.reached < step:
        return BreakdownValues(nothing, False, tuple(False for _ in nothing))
    [*_, completion] = [event for number, event in run.served if number == step]
    at = time_of(funnel, run, step, completion)
    row = funnel.steps[step - 1]
    rivals = [
        event
        for event in events
        if time_of(funnel, run, step, event) == at
        and (event.is_required(funnel) if funnel.in_any_order else event.satisfied[row.position])
    ]
    tied = has_no_order(rivals)
    values = agreed([event.values for event in rivals]) if tied else completion.values
    later = [
        event
        for number, event in run.served
        if number > step and is_after(funnel, run, event, completion)
    ]
    conflicts = tuple(
        value is not None and bool({event.values[position] for event in later} - {None, value})
        for position, value in enumerate(values)
    )
    return BreakdownValues(values, tied, conflicts)


def at_end(funnel: Funnel, at: str, run: Run, position: int) -> tuple[Value, bool]:
    """Return the first or last value of a property, and whether tied events had to agree on it."""
    own = [
        (time_of(funnel, run, step, event), event)
        for step, event in run.served
        if event.values[position] is not None
    ]
    if not own:
        return None, False
    times = [time for time, _ in own]
    end = min(times) if at == "first" else max(times)
    rivals = [event for time, event in own if time == end]
    if has_no_order(rivals):
        [value] = agreed([(event.values[position],) for event in rivals])
        return value, True
    choose = min if at == "first" else max
    return choose(rivals, key=lambda event: event.number or 0).values[position], False


def time_of(funnel: Funnel, run: Run, step: int, event: UnitEvent) -> Instant:
    if funnel.in_any_order:
        return instant(run, event)
    return event.start if step == 1 else event.end


def has_no_order(events: Sequence[UnitEvent]) -> bool:
    numbers = [event.number for event in events]
    return len(events) > 1 and (None in numbers or len(set(numbers)) < len(numbers))


def is_after(funnel: Funnel, run: Run, event: UnitEvent, completion: UnitEvent) -> bool:
    own, other = (time_of(funnel, run, 2, each) for each in (event, completion))
    if own != other or event.number is None or completion.number is None:
        return own > other
    return event.number > completion.number
