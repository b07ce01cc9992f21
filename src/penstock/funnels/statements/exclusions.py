"""Exclusions: events that end a unit between two steps.

They match an exclusion row, or violate a strict step. The fold reads them with a mask of gaps:
gap k lies between steps k and k + 1, and bit k is set if the event excludes a unit there.
Source: semantics, "Exclusions and strict order".
"""

from penstock.funnels.statements.query import UNUSABLE, Plan

NOT_EXCLUDED = "toInt64(-1)"
"""The value of `excluded_after` of a unit that is not excluded."""


def followed_bits(plan: Plan) -> int:
    """Return the matches of events that can affect a unit after its entry."""
    steps = sum(step.all for step in plan.steps[1:])
    if any(step.row.strict for step in plan.steps):
        steps = plan.required
    return steps | sum(plan.exclusions) | plan.any_event


def gaps(plan: Plan, mask: str) -> str:
    """Return the mask of the gaps in which an event with this `mask` excludes a unit."""
    terms = []
    for gap, (step, exclusion) in enumerate(
        zip(plan.steps[1:], plan.exclusions, strict=True), start=1
    ):
        conditions = [plan.overlaps(mask, exclusion)] if exclusion else []
        if step.row.strict:
            any_event = plan.any_event if step.row.strict_all else 0
            others = plan.overlaps(mask, plan.required - step.all | any_event)
            conditions.append(f"({others} AND NOT ({plan.overlaps(mask, step.all)}))")
        if conditions:
            terms.append(f"{1 << gap} * ({' OR '.join(conditions)})")
    return f"toUInt32({' + '.join(terms)})"


def excludes_in(gap: str, mask: str) -> str:
    """Whether a mask of gaps contains a gap. gap: the number of completed steps."""
    return f"bitTest({mask}, {gap})"


def fold_inputs(plan: Plan, events: str, same_ts: str, same_seq: str) -> dict[str, str]:
    """Return the arrays that the fold reads beside the array `events`.

    gaps: see above. same_gaps: the gaps of all events with the same time and number. free_gaps: the
    gaps of all events with the same time and without a usable number. Their order is not known, so
    an exclusion counts as earlier than the event. same_ts, same_seq: whether an event's time, or
    its time and number, equals that of the previous event.
    """
    of_events = f"arrayMap(x -> {gaps(plan, 'x.mask')}, {events})"
    inputs = {"gaps": of_events, "same_gaps": _combined(of_events, same_seq)}
    if plan.definition.sequence_property is not None:
        free = f"arrayMap(x -> if(x.seq = {UNUSABLE}, {gaps(plan, 'x.mask')}, 0), {events})"
        inputs["free_gaps"] = _combined(f"CAST({free}, 'Array(UInt32)')", same_ts)
    return inputs


def _combined(masks: str, same: str) -> str:
    """Replace each mask by the union of all masks of its run. same: whether a run continues."""
    runs = f"arraySplit((mask, same) -> NOT same, {masks}, {same})"
    every = "arrayWithConstant(length(run), arrayReduce('groupBitOr', run))"
    return f"arrayFlatten(arrayMap(run -> {every}, {runs}))"


def contested_ties(plan: Plan, hit: str) -> str:
    """Count the unordered ties between the event that excluded a unit and the next step's events.

    hit: the next step's open matches that an event with `mask` satisfies, after the unit ended.
    """
    conditions = [
        "ts = progress.ended_ts",
        f"{hit} != 0",
        f"NOT {excludes_in('progress.reached', gaps(plan, 'mask'))}",
    ]
    if plan.definition.sequence_property is not None:
        conditions += [
            f"(seq = {UNUSABLE} OR progress.ended_seq IN ({UNUSABLE}, seq))",
            "seq >= progress.least",
        ]
    columns = {"ts": "late" if plan.has_whole_seconds else "ts", "seq": "seq", "mask": "mask"}
    if plan.definition.in_step_order:
        # The events of this time were read several times. Some were used or refused before.
        conditions += [f"NOT has(progress.{ids}, event_id)" for ids in ("used", "refused")]
        columns["event_id"] = "event_id"
    arrays = ", ".join(f"followers.{column}" for column in columns.values())
    return f"arrayCount(({', '.join(columns)}) -> {' AND '.join(conditions)}, {arrays})"
