"""The choice between events that match the same step, if nothing proves their order.

If they have no usable numbers, the event that matches the fewest later rows serves the step, then
the one with the first match of the step. Then the rows and the values that the funnel reads decide.
Events that are equal in them are interchangeable, so no figure depends on the order of arrival.
Source: semantics, "Equal times".
"""

from penstock.funnels.definitions.model import Match, Row
from penstock.funnels.statements.matching import is_pattern
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
    """Whether it matters which values an accepted event has: only those of visitors conflict."""
    return not plan.by_attempt and plan.breadth > 0


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
    return any(_overlap(match, other) for match in row.matches for other in others)


def _overlap(match: Match, other: Match) -> bool:
    has_pattern = is_pattern(match) or is_pattern(other)
    return match.type is other.type and (has_pattern or match.value == other.value)


def rank_type(plan: Plan) -> str:
    texts = ", String" * plan.breadth if reads_texts(plan) else ""
    return f"Tuple(UInt8, {plan.mask_type}, {plan.mask_type}, UInt8{texts})"


def first_rank(plan: Plan) -> str:
    """Return the sort key of an event among those that could complete step 1."""
    return _unless_numbered(plan, "seq", _first_rank(plan))


def _unless_numbered(plan: Plan, seq: str, key: str) -> str:
    """Return a sort key for events without a usable number; the same key for all others."""
    none = ", ''" * plan.breadth if reads_texts(plan) else ""
    kind = rank_type(plan)
    return f"if({seq} = {UNUSABLE}, CAST({key}, '{kind}'), CAST((0, 0, 0, 0{none}), '{kind}'))"


def _first_rank(plan: Plan) -> str:
    read = sum(bits.all for bits in plan.rows if not bits.row.diagnostic)
    numbers = range(1, plan.breadth + 1)
    last = "".join(f", text_{j}" for j in numbers) if reads_texts(plan) else ""
    if plan.definition.in_any_order:
        steps = " + ".join(f"({plan.overlaps('mask', step.all)})" for step in plan.steps)
        mask = f"bitAnd(mask, {plan.mask(read)})"
        return f"tuple(toUInt8({steps}), {plan.mask(0)}, {mask}, coarse{last})"
    return f"tuple({_of_step(plan, 0, 'mask')}, bitAnd(mask, {plan.mask(read)}), coarse{last})"


def rank(plan: Plan, step: int) -> str:
    """Return the sort key of the event `x` among those that could serve a step.

    step: index of the step.
    """
    numbers = range(plan.breadth)
    texts = "".join(f", x.rank.{5 + j}" for j in numbers) if reads_texts(plan) else ""
    key = f"tuple({_of_step(plan, step, 'x.mask')}, x.rank.3, x.rank.4{texts})"
    return _unless_numbered(plan, "x.seq", key)


def _of_step(plan: Plan, step: int, mask: str) -> str:
    bits = plan.steps[step]
    own = f"bitAnd({mask}, {plan.mask(bits.all)})"
    lowest = f"to{plan.mask_type}(bitAnd({own}, bitNot({own} - {plan.mask(1)})))"
    return f"{_later_rows(plan, bits, mask)}, {lowest}"


def _later_rows(plan: Plan, step: RowBits, mask: str) -> str:
    """Count the rows after a step that an event matches, without diagnostic rows."""
    later = plan.rows[plan.rows.index(step) + 1 :]
    counted = [plan.overlaps(mask, bits.all) for bits in later if not bits.row.diagnostic]
    return f"toUInt8({' + '.join(f'({matches})' for matches in counted) or '0'})"


def served_masks(plan: Plan, events: str, same_order: str) -> str:
    """Return the mask of each event without the matches that others of the same order serve.

    Of a plain step, the first event serves all matches; of a group, each part is served by the
    first event that matches it. same_order: a column that shows for each event whether it has the
    same time and number as the previous one. Events with equal numbers are read as they arrived.
    """
    slots = [
        (index, bits)
        for index, step in enumerate(plan.steps)
        if index and (reads_texts(plan) or _has_rivals(plan, step.row))
        for bits in (step.each if step.row.all_of else (step.all,))
    ]
    if not slots:
        return f"{events}.mask"
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
                   arraySplit((x, same) -> NOT same, {events}, {same_order}))"""
    is_plain = f"arrayCount(same -> same, {same_order}) <= 1"  # The first one equals itself.
    return f"if({is_plain}, {events}.mask, arrayFlatten({of_runs}))"


def _first(plan: Plan, step: int, bits: int) -> str:
    """Return the position in `run` of the event that serves the given matches of a step."""
    ranks = f"arrayMap(x -> {rank(plan, step)}, run)"
    matches = f"arrayMap(x -> toUInt8({plan.overlaps('x.mask', bits)}), run)"
    return f"arrayReduce('argMinIf', arrayEnumerate(run), {ranks}, {matches})"
