"""Conditions of a query on entries, which look at the entry values that a unit is counted with.

Where tied entries disagree on a property, it is missing. Source: semantics, "Equal times".
"""

from collections.abc import Iterable

from penstock.funnels.statements.query import UNUSABLE, Plan


def are_tied(events: str) -> str:
    """Whether the order of events with equal times is not known."""
    return f"""(length({events}) > 1
                   AND (has({events}.seq, {UNUSABLE})
                        OR length(arrayDistinct({events}.seq)) < length({events})))"""


def entry_passes(plan: Plan, event: str, disagree: str) -> str:
    """Whether an entry passes. disagree: see `disagreements`."""
    missing = [int(condition.if_missing) for condition in plan.definition.entry_conditions]
    return f"""toUInt8(NOT has(arrayMap(
                   (is_met, if_missing, disagrees) -> if(disagrees, if_missing, is_met),
                   {event}.met, {plan.binder.bind("Array(UInt8)", missing)}, {disagree}), 0))"""


def disagreements(plan: Plan, rivals: str, tied: str) -> str:
    """Return for each condition whether tied entries disagree on its property.

    rivals: the events that decide the entry values. tied: whether they decide by agreement.
    """
    size = len(plan.definition.entry_conditions)
    values = f"arrayUniq(arrayMap(x -> x.compared[at], {rivals}))"
    return f"arrayMap(at -> toUInt8({tied} AND {values} > 1), range(1, {size + 1}))"


def filtered_histories(plan: Plan, histories: str, fields: Iterable[str], event_type: str) -> str:
    """Set `passes` of the events by what the events of a plain step 1 at the same time agree on.

    fields: names of the fields of an event.
    """
    runs = "arraySplit((x, same) -> NOT same, history, arrayMap((now, previous) -> now = previous,"
    runs += " history.ts, arrayPopBack(arrayPushFront(history.ts, history.ts[1]))))"
    starts = plan.overlaps("x.mask", plan.entry_bits)
    rivals = f"arrayMap(run -> arrayFilter(x -> {starts}, run), runs)"
    disagree = f"arrayMap(rivals -> {disagreements(plan, 'rivals', are_tied('rivals'))}, {rivals})"
    values = ", ".join("passed" if name == "passes" else f"x.{name}" for name in fields)
    events = f"""arrayMap((x, passed) -> CAST(tuple({values}), '{event_type}'), history,
                   arrayFlatten(arrayMap((run, disagree) -> arrayMap(
                       x -> {entry_passes(plan, "x", "disagree")}, run), runs, {disagree})))"""
    return f"""
        SELECT unit, has_more_events, {events} AS history
        FROM (SELECT unit, has_more_events, history, {runs} AS runs FROM ({histories}))"""
