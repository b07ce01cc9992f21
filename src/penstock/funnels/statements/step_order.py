"""Step order: events with equal times count in the order of the steps, however they arrived.

The fold reads the events of one time again after each acceptance, and assumes the order of events
that do not both have a usable number. Source: semantics, "Equal times".
"""

from penstock.funnels.statements.entries import MAX_TOGETHER
from penstock.funnels.statements.query import UNUSABLE, Plan

NONE = "CAST([], 'Array(String)')"
USED, REFUSED = f"if(same_ts, s.used, {NONE})", f"if(same_ts, s.refused, {NONE})"
"""IDs of the events of the current time that were used for a step, or refused."""
IS_FREE = f"ts = s.last_ts AND (seq = {UNUSABLE} OR s.last_seq = {UNUSABLE})"
"""Whether nothing proves the order of an event and the event that completed the last step."""
IS_FIRST_REFUSAL = f"NOT has({REFUSED}, event_id)"
IS_EARLIER = f"seq != {UNUSABLE} AND s.last_seq != {UNUSABLE} AND seq < s.last_seq"
"""Whether an event with the last step's time is provably before it."""
WITH_USED = f"arrayPushBack({USED}, event_id)"
WITH_REFUSED = f"arrayPushBack({REFUSED}, event_id)"


def reading(plan: Plan, same_ts: str) -> str:
    """Return the followers in reading order. Followers with equal times appear several times.

    same_ts: whether a follower has the same time as the previous one.
    """
    runs = f"arraySplit((x, same) -> NOT same, followers, {same_ts})"
    more = f"least(length(run), {plan.definition.max_readings - 1})"
    readings = f"if(length(run) BETWEEN 2 AND {MAX_TOGETHER}, 1 + {more}, 1)"
    return (
        f"arrayFlatten(arrayMap(run -> arrayFlatten(arrayWithConstant({readings}, run)), {runs}))"
    )
