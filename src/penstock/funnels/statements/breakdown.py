"""The values by which units are broken down, where they are not those of the entry.

They come from the events at the completion of a step, or from the first or last accepted event that
has the property. Source: semantics, "Breakdown by another step".
"""

from penstock.funnels.definitions.model import FIRST
from penstock.funnels.statements.entry_filters import are_tied
from penstock.funnels.statements.query import UNUSABLE, Plan

SERVED_TYPE = "Array(Tuple(step UInt8, time Int64, seq UInt64, keys Array(UInt64)))"
"""The accepted events of a unit, with the step that each served. Times are in the fold's unit."""


def add_values(plan: Plan, folded: str) -> str:
    """Add the columns `own_keys`, `own_tied` and `own_conflicts`: the values, whether tied
    events had to agree on them, and a bit for each value that another accepted event contradicts.

    folded: a relation with the columns of `folded_units`.
    """
    step = plan.definition.breakdown_at
    return _at_step(plan, folded, step) if isinstance(step, int) else _at_end(plan, folded)


def _at_step(plan: Plan, folded: str, step: int) -> str:
    is_reached = f"progress.reached >= {step}"
    if plan.definition.in_any_order:
        rivals = "arrayFilter(x -> x.time = step_time AND x.rows != 0, around)"
    else:
        time = "x.late" if plan.has_whole_seconds else "x.ts"
        matches = plan.overlaps("x.mask", plan.steps[step - 1].all)
        rivals = f"arrayFilter(x -> {time} = step_time AND {matches}, history)"
    after = f"""(x.time > completion.time OR (x.time = completion.time
                   AND x.seq != {UNUSABLE} AND completion.seq != {UNUSABLE}
                   AND x.seq > completion.seq))"""
    bits = " + ".join(
        f"{1 << j} * (x.keys[{j + 1}] != 0 AND own_keys[{j + 1}] != 0"
        f" AND x.keys[{j + 1}] != own_keys[{j + 1}])"
        for j in range(plan.breadth)
    )
    disagree = "own_tied AND arrayUniq(arrayMap(x -> x.keys[j], rivals)) > 1"
    is_tied = "length(rivals) > 1" if plan.definition.in_any_order else are_tied("rivals")
    return f"""
        SELECT *, toUInt8(arrayReduce('groupBitOr', arrayConcat([toUInt8(0)], arrayMap(
                   x -> toUInt8(({bits}) * (x.step > {step} AND {after})), progress.served))))
                   AS own_conflicts
        FROM (SELECT *, arrayMap(j -> if({disagree}, 0, completion.keys[j]),
                                 range(1, {plan.breadth + 1})) AS own_keys
        FROM (SELECT *, toUInt8({is_reached} AND {is_tied}) AS own_tied
        FROM (SELECT *, {rivals} AS rivals
        FROM (SELECT *, progress.done[{step}] AS step_time,
                     arrayLast(x -> x.step = {step} AND {is_reached}, progress.served)
                         AS completion
        FROM ({folded})))))"""


def _at_end(plan: Plan, folded: str) -> str:
    """Take the values of the first or the last accepted event that has them."""
    end = 1 if plan.definition.breakdown_at == FIRST else -1
    numbers = range(1, plan.breadth + 1)
    own, rivals, ties, keys, conflicts = [], [], [], [], []
    for j in numbers:
        own.append(f"arrayFilter(x -> x.keys[{j}] != 0, in_order) AS own_{j}")
        rivals.append(f"arrayFilter(x -> x.time = own_{j}[{end}].time, own_{j}) AS rivals_{j}")
        ties.append(f"{are_tied(f'rivals_{j}')} AS tied_{j}")
        values = f"arrayUniq(arrayMap(x -> x.keys[{j}], {{}}))"
        disagree = f"tied_{j} AND {values.format(f'rivals_{j}')} > 1"
        keys.append(f"if({disagree}, 0, own_{j}[{end}].keys[{j}])")
        conflicts.append(f"{1 << (j - 1)} * ({values.format(f'own_{j}')} > 1)")
    return f"""
        SELECT *, [{", ".join(keys)}] AS own_keys,
               toUInt8({" OR ".join(f"tied_{j}" for j in numbers)}) AS own_tied,
               toUInt8({" + ".join(conflicts)}) AS own_conflicts
        FROM (SELECT *, {", ".join(ties)}
        FROM (SELECT *, {", ".join(rivals)}
        FROM (SELECT *, {", ".join(own)}
        FROM (SELECT *, arraySort(x -> (x.time, x.seq), progress.served) AS in_order
        FROM ({folded})))))"""
