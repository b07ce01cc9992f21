"""Step order: events with equal times count in the order of the steps, however they arrived.

The fold reads the events of one time again after each step, and assumes the order of events that do
not both have a usable number. Source: semantics, "Equal times".
"""

from penstock.funnels.statements.entries import MAX_TOGETHER
from penstock.funnels.statements.equal_times import reading_key
from penstock.funnels.statements.exclusions import excludes_in, gaps
from penstock.funnels.statements.query import UNUSABLE, Plan

NONE = "CAST([], 'Array(String)')"
USED, REFUSED = f"if(same_ts, s.used, {NONE})", f"if(same_ts, s.refused, {NONE})"
"""IDs of the events of the current time that were used for a step, or refused."""
IS_FREE = f"ts = s.last_ts AND (seq = {UNUSABLE} OR s.last_seq = {UNUSABLE})"
"""Whether nothing proves the order of an event and the event that completed the last step."""
IS_FIRST_REFUSAL = f"NOT has({REFUSED}, event_id)"
IS_EARLIER = f"seq != {UNUSABLE} AND s.last_seq != {UNUSABLE} AND seq < s.last_seq"
"""Whether an event with the last step's time is provably before it."""
IS_AWAITED = "awaited IN (0, s.reached + 1)"
"""Whether an event is read for the next step."""
WITH_USED = f"arrayPushBack({USED}, event_id)"
WITH_REFUSED = f"arrayPushBack({REFUSED}, event_id)"


def reading(plan: Plan, same_ts: str) -> str:
    """Return the columns `reading` and `awaited`: the followers in reading order, and the step that
    each of them is read for; 0 for any step.

    Followers with equal times are read once for each step. Those without a number come last, and
    exclusions first among them. same_ts: whether a follower has the same time as the previous one.
    """
    runs = f"arraySplit((x, same) -> NOT same, followers, {same_ts})"
    steps = range(1, len(plan.steps))
    sorted_runs = ", ".join(_sorted(plan, step) for step in steps)
    numbers = ", ".join(f"arrayWithConstant(length(run), {step + 1})" for step in steps)
    once = f"length(run) = 1 OR length(run) > {MAX_TOGETHER}"
    alone = f"arraySort(x -> {reading_key(plan, 0)}, run)"
    read = f"if({once}, {alone}, arrayConcat({sorted_runs}))"
    awaited = f"if({once}, arrayWithConstant(length(run), 0), arrayConcat({numbers}))"
    return f"""arrayFlatten(arrayMap(run -> {read}, {runs})) AS reading,
               arrayFlatten(arrayMap(run -> {awaited}, {runs})) AS awaited"""


def _sorted(plan: Plan, step: int) -> str:
    """Return the events of `run` as they are read for a step. step: its index."""
    excludes = excludes_in(str(step), gaps(plan, "x.mask")) if plan.excludes else "0"
    is_step = f"x.seq = {UNUSABLE} AND NOT {excludes}"
    return f"arraySort(x -> {reading_key(plan, step, is_step + ', ')}, run)"
