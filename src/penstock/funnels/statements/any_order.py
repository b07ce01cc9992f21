"""The progress of a unit whose steps count in any order.

Instead of folding events one by one, this lists those that follow the entry and selects the events
that serve a step. If each event of a unit can serve one step only, they are the first of each step.
Otherwise, an event serves a step if it raises the number of steps that different events can serve
(`_independent`). Source: semantics, "Any order".
"""

from penstock.funnels.statements.breakdown import SERVED_TYPE
from penstock.funnels.statements.equal_times import keeps_ranks, rank
from penstock.funnels.statements.query import UNUSABLE, Plan
from penstock.funnels.statements.times import entry_time


def steps_in_any_order(plan: Plan, values: str, *, keeps_conflicts: bool) -> str:
    """Add the column `progress`, with the fields of the fold's state that the outcome reads.

    values: a relation with the columns of `values` in `penstock.funnels.statements.fold`.
    keeps_conflicts: whether to find conflicts with the entry values among the events that serve.
    """
    n = len(plan.steps)
    excludes = sum(plan.exclusions)
    is_exclusion = plan.overlaps("x.mask", excludes) if excludes else "0"
    after_stop = "0"
    if excludes:
        after_stop = "stop != 0 AND x.time >= stop"
    around = f"""
        SELECT *, {entry_time(plan)} AS entry_time, {_around(plan)} AS around
        FROM ({values})"""
    # Each name is defined in a separate subquery. Otherwise, the engine would analyse a copy of
    # its expression wherever it is used.
    stopped = f"""
        SELECT *, arrayFirst(x -> {is_exclusion} AND x.time > entry_time, around).time AS stop
        FROM ({around})"""
    read = f"""
        SELECT *, arrayFilter(x -> x.rows != 0 AND NOT ({after_stop}), around) AS read
        FROM ({stopped})"""
    first = f"""
        SELECT *, arrayFilter((x, nth) -> nth <= bitCount(x.rows),
                              read, arrayEnumerateUniq(read.rows)) AS first
        FROM ({read})"""
    serving = f"SELECT *, {_serving(plan)} AS serving FROM ({first})"
    done = f"""
        SELECT *, {_done_rows(plan)} AS done_rows, toUInt8(length(serving)) AS reached,
               toUInt8(stop != 0 AND reached < {n}) AS excluded
        FROM ({serving})"""
    is_step = "x.rows != 0"
    ties = f"arrayCount(x -> x.time = entry_time AND {is_exclusion} AND NOT {is_step}, around)"
    contested = f"x.time = stop AND {is_step} AND NOT ({is_exclusion})"
    if excludes:
        ties += f" + if(excluded, arrayCount(x -> {contested}, around), 0)"
    else:
        ties = "0"
    conflicts = "toUInt8(0)"
    if keeps_conflicts:
        conflicts = f"""arrayReduce('groupBitOr', arrayConcat([toUInt8(0)], arrayMap(
                       x -> toUInt8(({_conflict_bits(plan)}) * (x.time > entry_time)), serving)))"""
    fields = {
        "reached": ("UInt8", "reached"),
        "last_ts": ("Int64", "serving[-1].time"),
        "skips": ("UInt32", "0"),
        "ties": ("UInt32", ties),
        "conflicts": ("UInt8", conflicts),
        "chosen": (plan.mask_type, _chosen(plan)),
        "excluded": ("UInt8", "excluded"),
        "ended_ts": ("Int64", "stop"),
        "done": ("Array(Int64)", "serving.time"),
    }
    if not plan.definition.is_by_entry:
        served = f"arrayMap((x, step) -> (step, x.time, toUInt64({UNUSABLE}), x.keys), serving, "
        fields["served"] = (SERVED_TYPE, f"{served}arrayEnumerate(serving))")
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in fields.items())
    parts = ", ".join(value for _, value in fields.values())
    return f"""
        SELECT * EXCEPT (reached, excluded), CAST(tuple({parts}), 'Tuple({kinds})') AS progress
        FROM ({done})"""


def _around(plan: Plan) -> str:
    """Return the events from the entry to the end of its window, in the order in which they serve.

    Fields: time, rows (a bit for each step that the event matches), mask, keys. All events of the
    entry's time count with the entry.
    """
    time = "x.ts"
    conditions = ["x.ts >= entry_ts", "x.ts <= window_end"]
    if plan.has_whole_seconds:
        time = "if(x.ts = entry_ts, 2 * x.ts, x.late)"
        conditions[0] = f"{time} >= {entry_time(plan)}"
    conditions.append(plan.overlaps("x.mask", plan.required | sum(plan.exclusions)))
    own = f"arrayFilter(x -> {' AND '.join(conditions)}, history)"
    if plan.has_whole_seconds:
        order = f"{rank(plan, 0)}, x.event_id" if keeps_ranks(plan) else "x.event_id"
        own = f"arraySort(x -> ({time}, {order}), {own})"
    kind = f"Tuple(time Int64, rows UInt32, mask {plan.mask_type}, keys Array(UInt64))"
    keys = "x.keys" if plan.breadth else "[]"
    event = f"({time}, {rows_of(plan, 'x.mask')}, x.mask, {keys})"
    return f"arrayMap(x -> CAST({event}, '{kind}'), {own})"


def rows_of(plan: Plan, mask: str) -> str:
    """Return a number with a bit for each step that an event with this mask matches."""
    bits = (f"{1 << at} * ({plan.overlaps(mask, step.all)})" for at, step in enumerate(plan.steps))
    return f"toUInt32({' + '.join(bits)})"


def _serving(plan: Plan) -> str:
    """Return the events that serve a step, one for each completed step, in order of time."""
    if not plan.definition.has_shared_events:
        return "first"
    masks = "arrayDistinct(first.rows)"
    every = "arrayReduce('groupBitOr', arrayConcat([toUInt32(0)], first.rows))"
    is_plain = f"arraySum(arrayMap(rows -> bitCount(rows), {masks})) = bitCount({every})"
    serves = _independent("first.rows", len(plan.steps))
    return f"if({is_plain}, first, arrayFilter((x, serves) -> serves, first, {serves}))"


def _done_rows(plan: Plan) -> str:
    """Return a bit for each step that was done, in the assignment that comes first in row order."""
    every = "arrayReduce('groupBitOr', arrayConcat([toUInt32(0)], serving.rows))"
    if not plan.definition.has_shared_events:
        return every
    n = len(plan.steps)
    bits = ", ".join(str(1 << at) for at in range(n))
    # The steps in order, with a bit for each event that can serve them.
    by_row = f"""arrayMap(bit -> toUInt32(arraySum(arrayMap(
                   (x, at) -> bitShiftLeft(toUInt64(bitAnd(x.rows, bit) != 0), at - 1),
                   serving, arrayEnumerate(serving)))), [{bits}])"""
    is_done = f"arrayMap((done, bit) -> done * bit, {_independent(by_row, n)}, [{bits}])"
    return f"if(bitCount({every}) = length(serving), {every}, toUInt32(arraySum({is_done})))"


def _independent(masks: str, size: int) -> str:
    """Return for each item of a list whether it raises the number of slots that different items can
    fill, each of which can fill the slots in its mask.

    held: for each slot, the mask of the item that fills it; 0 if it is free. A new item may fill a
    slot whose item moves to another one, and so on, until an item fills a free slot. levels: the
    slots from which a free one is at most 0, 1, 2, ... moves away.
    """
    slots = ", ".join(str(1 << at) for at in range(size))
    slots = f"CAST([{slots}], 'Array(UInt32)')"
    free = (
        f"arrayReduce('groupBitOr', arrayMap((own, slot) -> if(own = 0, slot, 0), s.held, {slots}))"
    )
    nearer = (
        "arrayReduce('groupBitOr', arrayMap((own, slot) -> "
        f"if(bitAnd(own, levels[-1]) != 0, slot, 0), held, {slots}))"
    )
    levels = f"""arrayFold((levels, at, held) ->
                       arrayPushBack(levels, bitOr(levels[-1], toUInt32({nearer}))),
                   range({size - 1}), arrayWithConstant({size - 1}, s.held),
                   CAST([{free}], 'Array(UInt32)'))"""
    lowest = "bitAnd(p.item, level)"
    lowest = f"bitAnd({lowest}, bitNot({lowest} - 1))"
    moves = "bitAnd(p.item, level) != 0 AND bitAnd(p.item, nearer) = 0"
    moved = f"""tuple(arrayMap((own, slot) -> if(slot = {lowest}, p.item, own), p.held, {slots}),
                         p.held[bitCount(toUInt32({lowest} - 1)) + 1])"""
    placed = f"""arrayFold((p, level, nearer) -> CAST(
                           if({moves}, {moved}, p), 'Tuple(held Array(UInt32), item UInt32)'),
                   arrayReverse(levels), arrayPushBack(arrayPopFront(arrayReverse(levels)), 0),
                   CAST((s.held, item), 'Tuple(held Array(UInt32), item UInt32)'))"""
    step = f"""arrayMap(levels -> arrayMap(p -> CAST(
                       (p.held, arrayPushBack(s.serves, item != 0 AND p.item = 0)),
                       'Tuple(held Array(UInt32), serves Array(UInt8))'),
                   [{placed}])[1], [{levels}])[1]"""
    start = f"(arrayWithConstant({size}, toUInt32(0)), [])"
    return f"""arrayFold((s, item) -> {step}, {masks},
                   CAST({start}, 'Tuple(held Array(UInt32), serves Array(UInt8))')).serves"""


def _chosen(plan: Plan) -> str:
    """Return the mask of the options that count: the first of each done step's earliest events."""
    parts = []
    for at, step in enumerate(plan.steps):
        own = plan.mask(step.all)
        if len(step.each) > 1:
            hits = plan.overlaps("x.mask", step.all)
            first = f"arrayFirst(x -> {hits}, read).time"
            times = f"arrayWithConstant(length(read), {first})"
            same = f"arrayFilter((x, first) -> x.time = first, read, {times}).mask"
            together = f"arrayReduce('groupBitOr', arrayConcat([{plan.mask(0)}], {same}))"
            own = f"bitAnd({together}, {plan.mask(step.all)})"
            own = f"bitAnd({own}, bitNot({own} - {plan.mask(1)}))"
        parts.append(f"if(bitTest(done_rows, {at}), to{plan.mask_type}({own}), {plan.mask(0)})")
    chosen = parts[0]
    for part in parts[1:]:
        chosen = f"bitOr({chosen}, {part})"
    return chosen


def _conflict_bits(plan: Plan) -> str:
    """Return a mask with a bit for each entry value that the event `x` contradicts."""
    return " + ".join(
        f"{1 << j} * (x.keys[{j + 1}] != 0 AND entry_keys[{j + 1}] != 0"
        f" AND x.keys[{j + 1}] != entry_keys[{j + 1}])"
        for j in range(plan.breadth)
    )
