"""The choice between events that match the same step, if nothing proves their order.

If they have no usable numbers, the event that matches the fewest later rows serves the step, then
the one with the first match of the step. Then the rows and the values that the funnel reads decide.
Events that are equal in them are interchangeable, so no figure depends on the order of arrival.
Source: semantics, "Equal times".
"""

from penstock.funnels.definitions.model import Row, overlap
from penstock.funnels.statements.query import UNUSABLE, Plan, RowBits


def keeps_ranks(plan: Plan) -> bool:
    """Whether the fold needs ranks: events that serve the same step can differ in what it reads."""
    if plan.definition.in_any_order:
        return reads_texts(plan)
    return (
        plan.definition.in_step_order
        or reads_texts(plan)
        or any(_has_rivals(plan, step.row) for step in plan.steps)
    )


def reads_texts(plan: Plan) -> bool:
    """Whether it matters which values an accepted event has: only those of visitors conflict, and
    only a breakdown by other events than the entry shows them.
    """
    return plan.breadth > 0 and not (plan.by_attempt and plan.definition.is_by_entry)


def _has_rivals(plan: Plan, row: Row) -> bool:
    """Whether events that match a row may differ: in its matches, or in those of other rows."""
    if len(row.matches) > 1:
        return True
    others = [
        match
        for other in plan.definition.rows
        if other is not row and not other.diagnostic
        for match in other.matches
    ]
    return any(overlap(match, other) for match in row.matches for other in others)


def reading_key(plan: Plan, step: int, before: str = "") -> str:
    """Return the sort key of the event `x` among those of its time.

    Events with equal numbers are read as they arrived, all others by `rank`. before: sort keys that
    precede the rank, each followed by a comma.
    """
    arrival = f"if(x.seq = {UNUSABLE}, '', x.event_id), "
    if plan.definition.sequence_property is None:
        arrival = ""
    return f"(x.seq, {arrival}{before}{rank(plan, step)}, x.event_id)"


def rank(plan: Plan, step: int) -> str:
    """Return the sort key of the event `x` among those that could serve a step.

    step: index of the step.
    """
    bits = plan.steps[step]
    own = f"bitAnd(x.mask, {plan.mask(bits.all)})"
    lowest = f"bitAnd({own}, bitNot({own} - {plan.mask(1)}))"
    read = sum(bits.all for bits in plan.rows if not bits.row.diagnostic)
    parts = [_later_rows(plan, bits), lowest, f"bitAnd(x.mask, {plan.mask(read)})"]
    if plan.definition.in_any_order:  # No step is awaited.
        parts[:2] = [" + ".join(f"({plan.overlaps('x.mask', row.all)})" for row in plan.steps)]
    if plan.has_whole_seconds:
        parts.append("bitTest(x.late, 0)")
    parts += [f"x.text_{j}" for j in range(1, plan.breadth + 1) if reads_texts(plan)]
    return f"tuple({', '.join(parts)})"


def in_reading_order(plan: Plan, histories: str) -> str:
    """Sort the events of equal times for step 1. Units without such events keep their order."""
    has_ties = "length(arrayCompact(events.ts)) < length(events)"
    in_order = f"arraySort(x -> (x.ts, {reading_key(plan, 0)}), events)"
    return f"SELECT unit, if({has_ties}, {in_order}, events) AS events FROM ({histories})"


def _later_rows(plan: Plan, step: RowBits) -> str:
    """Count the rows after a step that an event matches, without diagnostic rows."""
    later = plan.rows[plan.rows.index(step) + 1 :]
    counted = [plan.overlaps("x.mask", bits.all) for bits in later if not bits.row.diagnostic]
    return f"toUInt8({' + '.join(f'({matches})' for matches in counted) or '0'})"


def served_masks(plan: Plan, same_order: str) -> str:
    """Return the mask of each follower without the matches that others of the same order serve.

    Of a plain step, the first event serves all matches; of a group, each part is served by the
    first event that matches it. same_order: a column that shows for each follower whether it has
    the same time and number as the previous one. Events with equal numbers are read as they
    arrived.
    """
    slots = [
        (index, bits)
        for index, step in enumerate(plan.steps)
        if index and (reads_texts(plan) or _has_rivals(plan, step.row))
        for bits in (step.each if step.row.all_of else (step.all,))
    ]
    if not slots:
        return "followers.mask"
    others = ~sum(bits for _, bits in slots) & sum(bits.all for bits in plan.rows)
    firsts = ", ".join(_first(plan, index, bits) for index, bits in slots)
    masks = plan.masks([bits for _, bits in slots])
    serves = f"if(first = i, bitAnd(x.mask, slot), {plan.mask(0)})"
    of_event = f"arrayMap((first, slot) -> {serves}, firsts, {masks})"
    own = f"bitOr(bitAnd(x.mask, {plan.mask(others)}), arrayReduce('groupBitOr', {of_event}))"
    served = f"""arrayMap((x, i, firsts) -> {own},
                   run, arrayEnumerate(run), arrayWithConstant(length(run), [{firsts}]))"""
    is_ordered = f"length(run) = 1 OR run[1].seq != {UNUSABLE}"
    of_runs = f"""arrayMap(run -> if({is_ordered}, run.mask, {served}),
                   arraySplit((x, same) -> NOT same, followers, {same_order}))"""
    is_plain = f"arraySum({same_order}) <= 1"  # The first one equals itself.
    return f"if({is_plain}, followers.mask, arrayFlatten({of_runs}))"


def _first(plan: Plan, step: int, bits: int) -> str:
    """Return the position in `run` of the event that serves the given matches of a step."""
    ranks = f"arrayMap(x -> {rank(plan, step)}, run)"
    matches = f"arrayMap(x -> toUInt8({plan.overlaps('x.mask', bits)}), run)"
    return f"arrayReduce('argMinIf', arrayEnumerate(run), {ranks}, {matches})"
