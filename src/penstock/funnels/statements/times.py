"""Times as the general fold compares them: whole seconds count differently for later steps.

Source: semantics, "Whole seconds".
"""

from penstock.funnels.statements.query import Plan


def late_time(ts: str, coarse: str) -> str:
    """Return an event's time for later steps, in half milliseconds.

    A whole second counts half a millisecond after its last millisecond, so the number is odd.
    Source: semantics, "Whole seconds".
    """
    return f"if({coarse}, 2 * (intDiv({ts}, 1000) * 1000 + 999) + 1, 2 * {ts})"


def ms(plan: Plan, time: str) -> str:
    """Convert a time of the fold to milliseconds."""
    return f"bitShiftRight({time}, 1)" if plan.has_whole_seconds else time


def all_ms(plan: Plan, times: str) -> str:
    return f"arrayMap(time -> {ms(plan, 'time')}, {times})" if plan.has_whole_seconds else times


def entry_time(plan: Plan) -> str:
    """Return the entry's time in the fold's unit. A whole second counts at its start."""
    return "2 * entry_ts" if plan.has_whole_seconds else "entry_ts"
