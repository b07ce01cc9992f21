"""The entries of a unit: the events of its history that complete step 1 and can count.

Source: funnel semantics, "Entry" and "Visitor funnels". The expressions read `history`, a sorted
array of (ts, seq, event_id, mask, ...).
"""

from penstock.funnels.statements.query import UNUSABLE, Plan
from penstock.funnels.statements.runs import NO_END, group_entries

MAX_UNIT_EVENTS = 100_000
"""Maximum number of events that the fold reads per unit, oldest first. They are held in memory."""
MAX_COMPARISONS = 2_000_000
"""Maximum product of the numbers of a visitor's competing entries and events."""

MAX_TOGETHER = 1_000
"""Maximum number of events with equal times that are read again in step order."""

_ENTRY = "Tuple(at UInt32, began UInt32, least UInt64)"
"""at: position of the entry. began: position of the first event that could fill a part of step 1.
least: smallest sequence number that may follow (rule 4)."""


def entries_of(plan: Plan) -> str:
    """Return the entries that may count: an attempt's first, or a visitor's entries in the period.

    If every run counts, these are all possible entries, from which `runs` chooses. If time alone
    decides, and no event has a time in whole seconds, the result contains only the entries of runs,
    or else only the visitor's best entry, or the best entry of each span; in any order with shared
    events, those that may be the best. It may contain more entries than `max_entries`, which
    indicates that some are left out.
    """
    if plan.steps[0].row.all_of:
        return group_entries(plan) if plan.repeats else _group_entries(plan)
    # No lambda may read `history` itself: the engine would copy it for every element.
    least = least_next_number("x.seq", "0")
    entries = (
        f"arrayMap((i, x) -> CAST((i, 1, {least}), '{_ENTRY}'), arrayEnumerate(history), history)"
    )
    if plan.definition.in_any_order and not plan.by_attempt:
        return _entry_times(plan, entries)
    if plan.by_attempt:
        position = f"arrayFirstIndex(x -> {starts(plan)}, history)"
        return f"arraySlice({entries}, {position}, {position} != 0)"
    if is_ordered_by_time(plan):
        positions = _entries_of_runs(plan) if plan.repeats else _best_entries(plan)
        best = f"arrayMap(i -> {entries}[i], {positions})"
        if not plan.has_whole_seconds:
            return best
        every = f"arrayFilter((e, x) -> {starts(plan)}, {entries}, history)"
        return f"if(arrayExists(x -> bitTest(x.late, 0), history), {every}, {best})"
    return f"arrayFilter((e, x) -> {starts(plan)}, {entries}, history)"


def max_entries(plan: Plan) -> str:
    """Return the maximum number of competing entries; lower for units with more events."""
    if plan.by_attempt:
        return "1"
    max_readings = plan.definition.max_readings
    return f"greatest(1, intDiv({MAX_COMPARISONS}, length(history) * {max_readings}))"


def starts(plan: Plan) -> str:
    """Whether `x` completes a plain step 1 and, for a visitor, is in the period and may enter.

    The entry of an attempt or a run is its only entry, whether or not it counts.
    """
    condition = plan.overlaps("x.mask", plan.entry_bits)
    if plan.enters_once:
        return condition
    return f"{condition} AND {plan.in_period('x.ts')}{plan.may_enter('x.')}"


def least_next_number(seq: str, otherwise: str) -> str:
    """Return the smallest number that may follow an accepted event.

    otherwise: the result if the event's number is unusable.
    """
    return f"if({seq} = {UNUSABLE}, {otherwise}, {seq} + 1)"


def _group_entries(plan: Plan) -> str:
    """Return the entries if step 1 is a group. Each entry needs new events for all parts.

    The entries are chosen as in `entries_of`. Events that fill a part count as accepted.
    """
    every, none = plan.mask(plan.steps[0].all), plan.mask(0)
    hits = f"bitAnd(x.mask, {every})"
    least = f"if(bitOr(s.filled, {hits}) != s.filled AND x.seq != {UNUSABLE}, x.seq + 1, s.least)"
    state = (
        f"Tuple(position UInt32, began UInt32, filled {plan.mask_type}, least UInt64,"
        f" entries Array({_ENTRY}))"
    )
    after = "toUInt32(s.position + 1)"
    counts = (
        "empty(s.entries)"
        if plan.by_attempt
        else f"{plan.in_period('x.ts')} AND length(s.entries) <= {max_entries(plan)}"
    )
    pushed = f"arrayPushBack(s.entries, tuple(s.position, s.began, {least}))"
    entries = f"if({counts}, {pushed}, s.entries)"
    complete = f"tuple({after}, {after}, {none}, toUInt64(0), {entries})"
    partial = f"tuple({after}, s.began, bitOr(s.filled, {hits}), {least}, s.entries)"
    step = f"CAST(if(bitOr(s.filled, {hits}) = {every}, {complete}, {partial}), '{state}')"
    return f"arrayFold((s, x) -> {step}, history, CAST((1, 1, {none}, 0, []), '{state}')).entries"


def open_parts(plan: Plan) -> str:
    """Return the matches of step 1 that were unfilled just before the entry's timestamp.

    Source: semantics, "Entry values".
    """
    first = plan.steps[0]
    if not first.row.all_of:
        return plan.mask(plan.entry_bits)
    if plan.repeats:
        return "entry.open_parts"
    before = "arraySlice(history, entry.began, entry.at - entry.began)"
    earlier = f"arrayFilter(x -> x.ts < entry_ts, {before})"
    filled = f"arrayFold((s, x) -> bitOr(s, x.mask), {earlier}, {plan.mask(0)})"
    return f"bitAnd({plan.mask(first.all)}, bitNot({filled}))"


def is_ordered_by_time(plan: Plan) -> bool:
    """Whether time alone decides which events follow an entry.

    It does without sequence numbers, groups, exclusions and step order. In any order, no event may
    match several steps.
    """
    return (
        plan.definition.sequence_property is None
        and not plan.excludes
        and not plan.definition.in_step_order
        and not (plan.definition.in_any_order and plan.definition.has_shared_events)
        and not any(step.row.all_of for step in plan.steps)
    )


def _best_entries(plan: Plan) -> str:
    """Return the position of the entry that leads furthest, overall or in each span.

    Of several such entries, the earliest counts.
    """
    inside = "1" if plan.window_ms is None else f"time <= x.ts + {plan.window_ms}"
    count = f"if({starts(plan)}, 1 + arrayCount(time -> {inside}, times), 0)"
    reached = f"arrayMap((x, times) -> {count}, history, {_completion_times(plan)})"
    if plan.definition.in_any_order:
        count = f"if({starts(plan)}, steps, 0)"
        reached = f"arrayMap((x, steps) -> {count}, history, {_steps_in_window(plan)})"
    if plan.spans is not None:
        ranks = f"arrayMap((reached, x, i) -> ({plan.span('x.ts')}, -toInt64(reached), i), "
        ranks += f"{reached}, history, arrayEnumerate(history))"
        ranked = f"arraySort(arrayFilter(rank -> rank.2 < 0, {ranks}))"
        nth = "arrayEnumerateUniq(arrayMap(rank -> rank.1, ranked))"
        best = f"arrayFilter((rank, nth) -> nth = 1, ranked, {nth})"
        return f"arrayMap(rank -> rank.3, arrayMap(ranked -> {best}, [{ranked}])[1])"
    furthest = "if(arrayMax(reached) = 0, 0, indexOf(reached, arrayMax(reached)))"
    best = f"arrayMap(reached -> {furthest}, [{reached}])"
    return f"arrayFilter(i -> i != 0, {best})"


def _completion_times(plan: Plan) -> str:
    """Return for each event the times at which the later steps would be completed after it.

    Entries are not folded one by one. Instead, from the last step to the first, each event gets
    these times, always by the first strictly later match. The cost is therefore proportional to the
    number of events, not to events times entries.
    """
    next_times = "arrayPushBack(arrayPopFront(history.ts), -1)"
    last_of_its_time = f"arrayMap((now, next) -> now != next, history.ts, {next_times})"
    matched = "if(bitAnd(x.mask, step) != 0, arrayPushFront(times, x.ts), [])"
    at_matches = f"arrayMap((x, times) -> {matched}, history, s)"
    at_or_after = f"arrayReverseFill(times -> notEmpty(times), {at_matches})"
    after_next = f"arrayPushBack(arrayPopFront({at_or_after}), [])"
    later = f"arrayReverseFill((times, last) -> last, {after_next}, {last_of_its_time})"
    steps = ", ".join(plan.mask(step.all) for step in reversed(plan.steps[1:]))
    nothing = "arrayMap(x -> CAST([], 'Array(Int64)'), history)"
    return f"arrayFold((s, step) -> {later}, [{steps}], {nothing})"


def _entry_times(plan: Plan, entries: str) -> str:
    """Return the entries of a visitor in any order: one for each time, since all events of its time
    count with an entry.
    """
    is_entry = f"arrayMap(x -> {starts(plan)}, history)"
    nth = f"arrayEnumerateUniq(history.ts, {is_entry})"
    every = f"arrayFilter((e, x, nth) -> {starts(plan)} AND nth = 1, {entries}, history, {nth})"
    if plan.excludes:
        return every
    if plan.definition.has_shared_events:
        leading = _leading_entries(plan, nth)
        best = f"arrayMap(e -> if(length(e) > {max_entries(plan)}, e, {leading}), [{every}])[1]"
    else:
        best = f"arrayMap(i -> {entries}[i], {_best_entries(plan)})"
    if not plan.has_whole_seconds:
        return best
    return f"if(arrayExists(x -> bitTest(x.late, 0), history), {every}, {best})"


def _leading_entries(plan: Plan, nth: str) -> str:
    """Return those of the entries `e` that may lead further than the one before them: their window
    has another event, or they are in another span. nth: see `_entry_times`.
    """

    def changes(of_event: str) -> str:
        is_entry = f"{starts(plan)} AND nth = 1"
        values = f"arrayFilter((value, x, nth) -> {is_entry}, {of_event}, history, {nth})"
        return f"arrayDifference({values})"

    inputs = {"i": "arrayEnumerate(e)"}
    if plan.window_ms is not None:
        inputs["more"] = changes(_events_until_end(plan.window_ms))
    if plan.spans is not None:
        inputs["other"] = changes(f"arrayMap(x -> {plan.span('x.ts')}, history)")
    conditions = ["i = 1", *(f"{name} != 0" for name in list(inputs)[1:])]
    names, values = ", ".join(inputs), ", ".join(inputs.values())
    return f"arrayFilter((entry, {names}) -> {' OR '.join(conditions)}, e, {values})"


def _events_until_end(window_ms: int) -> str:
    """Return for each event the number of events until the end of the window that it opens."""
    ends = f"arrayMap(x -> (x.ts + {window_ms}, 1), history)"
    times = f"arraySort(arrayConcat(arrayMap(x -> (x.ts, 0), history), {ends}))"
    counts = "arrayCumSum(arrayMap(time -> 1 - time.2, times))"
    at_ends = f"arrayFilter((count, time) -> time.2 = 1, {counts}, times)"
    return f"arrayMap(times -> {at_ends}, [{times}])[1]"


def _steps_in_window(plan: Plan) -> str:
    """Return for each event the number of steps with an event from it to the end of its window."""
    none = "toInt64(9223372036854775807)"
    hits = f"if(bitAnd(x.mask, step) != 0, x.ts, {none})"
    following = f"arrayReverseFill(ts -> ts != {none}, arrayMap(x -> {hits}, history))"
    inside = f"ts != {none}"
    if plan.window_ms is not None:
        inside = f"ts <= now + {plan.window_ms}"
    counted = f"arrayMap((steps, ts, now) -> steps + ({inside}), s, {following}, history.ts)"
    steps = ", ".join(plan.mask(step.all) for step in plan.steps)
    return f"""arrayFold((s, step) -> CAST({counted}, 'Array(UInt8)'), [{steps}],
                   CAST(arrayWithConstant(length(history), 0), 'Array(UInt8)'))"""


def _entries_of_runs(plan: Plan) -> str:
    """Return the positions of the entries of runs, where time alone decides.

    Each is the first after the end of the run before: its completion, or the end of its window.
    """
    end = f"x.ts + {plan.window_ms}"
    is_done = f"length(times) = {len(plan.steps) - 1} AND times[-1] <= {end}"
    ends = f"arrayMap((x, times) -> if({is_done}, times[-1], {end}), history, "
    ends += f"{_completion_times(plan)})"
    is_start = f"arrayMap(x -> {starts(plan)}, history)"
    state = "Tuple(end Int64, entries Array(UInt32))"
    opens = "starts AND ts > s.end AND length(s.entries) <= maximum"
    step = f"if({opens}, tuple(end, arrayPushBack(s.entries, i)), tuple(s.end, s.entries))"
    maximum = f"arrayWithConstant(length(history), {max_entries(plan)})"
    return f"""arrayFold((s, starts, ts, end, i, maximum) -> CAST({step}, '{state}'),
                   {is_start}, history.ts, {ends}, arrayEnumerate(history), {maximum},
                   CAST(({NO_END}, []), '{state}')).entries"""
