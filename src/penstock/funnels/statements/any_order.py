"""The progress of a unit whose steps count in any order.

Instead of folding events one by one, this lists those that follow the entry and selects the events
that serve a step. If each event of a unit can serve one step only, they are the first of each step.
Otherwise, an event serves a step if it raises the number of steps that different events can serve:
`_filled_sets` finds these events for up to six steps that share events, `_independent` for more.
Source: semantics, "Any order".
"""

from collections.abc import Iterable

from penstock.funnels.statements.breakdown import SERVED_TYPE
from penstock.funnels.statements.equal_times import keeps_ranks, rank
from penstock.funnels.statements.query import UNUSABLE, Plan
from penstock.funnels.statements.times import entry_time

_MAX_STEPS_OF_SETS = 6
"""Maximum number of steps whose sets fit into 64 bits."""


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
    if _by_sets(plan):
        first = f"SELECT *, {_filled_sets(plan)} AS sets FROM ({first})"
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
    if not _by_sets(plan):
        serves = _independent("first.rows", len(plan.steps))
        return f"arrayFilter((x, serves) -> serves, first, {serves})"
    own = ~_rows(plan.definition.shared_steps) & _rows(range(len(plan.steps)))
    serves = f"sets != before OR bitAnd(x.rows, {own}) != 0"
    now_and_before = "arrayPopFront(sets), arrayPopBack(sets)"
    return f"arrayFilter((x, sets, before) -> {serves}, first, {now_and_before})"


def _done_rows(plan: Plan) -> str:
    """Return a bit for each step that was done, in the assignment that comes first in row order."""
    every = "arrayReduce('groupBitOr', arrayConcat([toUInt32(0)], serving.rows))"
    if not plan.definition.has_shared_events:
        return every
    if _by_sets(plan):
        shared = plan.definition.shared_steps
        filled = "bitPositionsToArray(sets[-1])[-1]"
        own = [f"{1 << step} * bitTest({filled}, {at})" for step, at in _digits(plan).items()]
        return f"toUInt32(bitAnd({every}, bitNot({_rows(shared)})) + {' + '.join(own)})"
    # The steps in order, with a bit for each event that can serve them.
    events = "arrayMap(at -> bitShiftLeft(toUInt32(1), at - 1), arrayEnumerate(serving))"
    n = len(plan.steps)
    by_step = ", ".join(
        f"toUInt32(arraySum((event, rows) -> event * bitTest(rows, {at}), {events}, serving.rows))"
        for at in range(n)
    )
    is_done = _independent(f"[{by_step}]", n)
    bits = ", ".join(str(1 << at) for at in range(n))
    return f"toUInt32(arraySum((done, bit) -> done * bit, {is_done}, [{bits}]))"


def _rows(steps: Iterable[int]) -> int:
    """Return a number with a bit for each of the steps."""
    return sum(1 << step for step in steps)


def _by_sets(plan: Plan) -> bool:
    return 0 < len(plan.definition.shared_steps) <= _MAX_STEPS_OF_SETS


def _digits(plan: Plan) -> dict[int, int]:
    """Return for each step that shares events its binary digit in the number of a set."""
    steps = plan.definition.shared_steps
    return dict(zip(steps, reversed(range(len(steps))), strict=True))


def _filled_sets(plan: Plan) -> str:
    """Return the sets of steps that different events can do: at first, then after each event.

    Only steps that share events are in a set. Such a set is a number with a binary digit for each
    step, the highest for the first step. All sets together are a number with a bit for each set, so
    its highest bit is the largest set, and among several the set that is first in row order. An
    event adds sets only if it raises the number of steps.
    """
    sets = range(1 << len(plan.definition.shared_steps))
    added = "sets[-1]"
    for step, digit in _digits(plan).items():
        without = sum(1 << own for own in sets if not own >> digit & 1)
        grown = f"bitShiftLeft(bitAnd(sets[-1], toUInt64({without})), {1 << digit})"
        added = f"bitOr({added}, {grown} * bitTest(rows, {step}))"
    return f"arrayFold((sets, rows) -> arrayPushBack(sets, {added}), first.rows, [toUInt64(1)])"


def _independent(masks: str, size: int) -> str:
    """Return for each item of a list whether it raises the number of slots that different items can
    fill, each of which can fill the slots in its mask.

    held: for each slot, the mask of the item that fills it; 0 if it is free. A new item may fill a
    slot whose item moves to another one, and so on, until an item fills a free slot. levels: the
    slots from which a free one is at most 0, 1, 2, ... moves away.

    No item needs to move if each fills the lowest slot that is free, until none is. free: the slots
    that are free then, at first and after each item.
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
    # An item that can fill a free slot moves no other one.
    moves = f"range(if(bitAnd(item, {free}) != 0, 0, {size - 1}))"
    levels = f"""arrayMap(moves -> arrayFold((levels, at, held) ->
                       arrayPushBack(levels, bitOr(levels[-1], toUInt32({nearer}))),
                   moves, arrayWithConstant(length(moves), s.held),
                   CAST([{free}], 'Array(UInt32)')), [{moves}])[1]"""
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
    by_moves = f"""arrayFold((s, item) -> {step}, if(fits, [], masks),
                   CAST({start}, 'Tuple(held Array(UInt32), serves Array(UInt8))')).serves"""
    lowest = "bitAnd(bitAnd(free[-1], item), bitNot(bitAnd(free[-1], item) - 1))"
    free = f"""arrayFold((free, item) -> arrayPushBack(free, toUInt32(free[-1] - {lowest})),
                   masks, [arrayReduce('groupBitOr', arrayConcat([toUInt32(0)], masks))])"""
    now_and_before = "arrayPopFront(free), arrayPopBack(free)"
    stuck = "item != 0 AND now = before AND before != 0"
    fits = f"NOT arrayExists((item, now, before) -> {stuck}, masks, {now_and_before})"
    serves = f"arrayMap((now, before) -> toUInt8(now != before), {now_and_before})"
    return f"""arrayMap((masks, free) -> arrayMap(
                   fits -> if(fits, {serves}, {by_moves}), [{fits}])[1],
                   [{masks}], arrayMap(masks -> {free}, [{masks}]))[1]"""


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
