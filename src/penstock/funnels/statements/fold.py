"""The general fold: every counting rule, for any definition and any order of events.

The fold reads the columns of `events.matched_events` and returns one row per counted unit
(`UNIT_COLUMNS`). Each stage is a subquery:

    histories   each unit's sorted events (semantics, "Order"), at most `MAX_UNIT_EVENTS`
    entries     the events that complete step 1 ("Entry"): the first for an attempt, and all in the
                period for a visitor, limited by `MAX_COMPARISONS`
    values      the entry values and the later events. If tied events have no usable order, only
                values on which they agree count.
    folded      the progress after each entry ("Progress after entry")
    units       the entry that counts, with the numbers of events that diagnostic rows counted
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.funnels.statements.entries import (
    MAX_UNIT_EVENTS,
    entries_of,
    least_next_number,
    max_entries,
    open_parts,
)
from penstock.funnels.statements.query import UNUSABLE, Plan, RowBits

UNIT_COLUMNS = (
    "keys",  # Array(UInt64): hashes of the entry values, 0 for missing values
    "reached",  # number of completed steps
    "entry_ts",  # milliseconds
    "done_ts",  # milliseconds at which the last completed step was completed
    "chosen",  # mask of the matches that the accepted events counted for
    "skips",
    "ties",
    "invalid",
    "tied",  # 1 if the entry values were decided by agreement
    "conflicts",  # bit j: a later event disagrees with entry value j
    "several",  # 1 if events of more than one visitor match steps of the attempt
    "seen",  # Array(UInt32): see `_diagnostic_counts`
    "cut",  # 1 if the unit exceeded a limit, so only its first events or entries were read
    "coarse",  # number of events whose whole second contains another event of the unit
)


DETAIL_COLUMNS = (
    "done",  # Array(Int64): milliseconds at which each step was completed
    "window_end",  # the window's last millisecond
)


def _event_type(plan: Plan) -> str:
    """Return the type of an event tuple.

    Fields are named explicitly, because inferred names get lost on the way to cluster shards.
    """
    late = ", late Int64" if plan.has_whole_seconds else ""
    return (
        f"Tuple(ts Int64, seq UInt64, event_id String, mask {plan.mask_type}, "
        f"keys Array(UInt64), invalid UInt8, visitor UInt64{late})"
    )


def general_units(plan: Plan, matched: str, *, detailed: bool = False) -> str:
    """Select one row per counted unit.

    matched: a relation with the columns of `matched_events`. detailed: whether to include
    `DETAIL_COLUMNS`.
    """
    keys = ", ".join(f"key_{j}" for j in range(1, plan.breadth + 1))
    late = f", {_late_time('ts', 'coarse')}" if plan.has_whole_seconds else ""
    histories = f"""
        SELECT unit,
               arraySort(groupArray(CAST(
                   (ts, seq, event_id, mask, CAST([{keys}], 'Array(UInt64)'), invalid, visitor
                    {late}),
                   '{_event_type(plan)}'))) AS events,
               arraySlice(events, 1, {MAX_UNIT_EVENTS}) AS history,
               length(events) > {MAX_UNIT_EVENTS} AS has_more_events
        FROM {matched} WHERE unit != 0 GROUP BY unit"""
    entries = f"""
        SELECT unit, history,
               has_more_events OR length(entries) > {max_entries(plan)} AS cut,
               arrayJoin(arraySlice(entries, 1, {max_entries(plan)})) AS entry,
               history[entry.at] AS first_event, first_event.ts AS entry_ts,
               {plan.window_end("entry_ts")} AS window_end
        FROM (SELECT unit, history, has_more_events, {entries_of(plan)} AS entries
              FROM ({histories}))"""
    # Each name is defined in a separate subquery. Otherwise, the engine would analyse a copy of
    # its expression wherever it is used.
    tied_events = f"""
        SELECT *, {open_parts(plan)} AS open_parts,
               arrayFilter(x -> x.ts = entry_ts AND bitAnd(x.mask, open_parts) != 0,
                           history) AS tied_events
        FROM ({entries}) WHERE {plan.in_period("entry_ts")}"""
    tied = f"""
        SELECT *, length(tied_events) > 1
                   AND (has(tied_events.seq, {UNUSABLE})
                        OR length(arrayDistinct(tied_events.seq)) < length(tied_events)) AS tied
        FROM ({tied_events})"""
    values = f"""
        SELECT *,
               arrayMap(j -> if(tied AND arrayUniq(arrayMap(x -> x.keys[j], tied_events)) > 1,
                                0, first_event.keys[j]),
                        range(1, {plan.breadth + 1})) AS entry_keys,
               {_later_events(plan)} AS later
        FROM ({_add_served(plan, tied)})"""
    followers = f"""
        SELECT *, {_followers(plan)} AS followers, {_early_ties(plan)} AS early_ties
        FROM ({values})"""
    state = _state(plan, detailed=detailed)
    times = "followers.late" if plan.has_whole_seconds else "followers.ts"
    inputs = {"ts": times, "seq": "followers.seq", "mask": "followers.mask"}
    inputs["same_ts"] = _equals_previous(times)
    if plan.definition.sequence_property is not None:
        inputs["same_seq"] = _equals_previous(f"arrayZip({times}, followers.seq)")
    if _folds_conflicts(plan):
        inputs["conflicts"] = _conflicts(plan, "followers")
    state_type = "Tuple(" + ", ".join(f"{item.name} {item.type}" for item in state) + ")"
    start = ", ".join(item.start for item in state)
    step = _step(plan, state)
    # Short circuits are off because the fold's conditions are cheap, while picking rows for each
    # condition is not.
    folded = f"""
        SELECT *,
               arrayFold((s, {", ".join(inputs)}) -> CAST({step}, '{state_type}'),
                         {", ".join(inputs.values())},
                         CAST(({start}), '{state_type}')) AS progress
        FROM ({followers})
        SETTINGS short_circuit_function_evaluation = 'disable'"""
    outcome = f"""
        SELECT unit, entry_keys AS keys, progress.reached AS reached, entry_ts,
               {_ms(plan, "progress.last_ts")} AS done_ts, {_chosen_matches(plan)} AS chosen,
               progress.skips AS skips, progress.ties AS ties,
               arrayCount(x -> x.invalid AND {plan.overlaps("x.mask", plan.required)},
                          history) AS invalid,
               tied, {_unit_conflicts(plan)} AS conflicts,
               {_has_several_visitors(plan)} AS several,
               {_diagnostic_counts(plan)} AS seen, cut, {_coarse_times(plan)} AS coarse,
               {f"{_all_ms(plan, 'progress.done')} AS done, window_end," if detailed else ""}
               {_stored_columns(plan) if plan.keeps_more else ""}
               entry.at AS entry_at
        FROM ({folded})"""
    if plan.by_attempt:
        return outcome
    return _select_furthest(
        plan, outcome, UNIT_COLUMNS + DETAIL_COLUMNS if detailed else UNIT_COLUMNS
    )


def _followers(plan: Plan) -> str:
    """Return the later events inside the window (rule 1) that match step 2 or a later step."""
    condition = plan.overlaps("x.mask", sum(step.all for step in plan.steps[1:]))
    return f"arrayFilter(x -> {condition}, later)"


def _late_time(ts: str, coarse: str) -> str:
    """Return an event's time for later steps, in half milliseconds.

    A whole second counts half a millisecond after its last millisecond, so the number is odd.
    Source: semantics, "Whole seconds".
    """
    return f"if({coarse}, 2 * (intDiv({ts}, 1000) * 1000 + 999) + 1, 2 * {ts})"


def _ms(plan: Plan, time: str) -> str:
    """Convert a time of the fold to milliseconds."""
    return f"bitShiftRight({time}, 1)" if plan.has_whole_seconds else time


def _all_ms(plan: Plan, times: str) -> str:
    return f"arrayMap(time -> {_ms(plan, 'time')}, {times})" if plan.has_whole_seconds else times


def _entry_time(plan: Plan) -> str:
    """Return the entry's time in the fold's unit. A whole second counts at its start."""
    return "2 * entry_ts" if plan.has_whole_seconds else "entry_ts"


def _coarse_times(plan: Plan) -> str:
    """Count a unit's coarse times. Source: semantics, "Data quality"."""
    if not plan.has_whole_seconds:
        return "toUInt32(0)"
    required = f"arrayFilter(x -> {plan.overlaps('x.mask', plan.required)}, history)"
    seconds = "arrayMap(x -> intDiv(x.ts, 1000), own)"
    neighbours = f"""arrayPushFront(arrayPopBack({seconds}), -1),
                   arrayPushBack(arrayPopFront({seconds}), -1)"""
    is_one = "bitTest(x.late, 0) AND (now = previous OR now = next)"
    count = f"""arrayCount((x, now, previous, next) -> {is_one}, own, {seconds}, {neighbours})"""
    return f"toUInt32(arrayMap(own -> {count}, [{required}])[1])"


def _later_events(plan: Plan) -> str:
    """Return the events after the entry and inside the window that match a required step."""
    condition = f"x.ts <= window_end AND {plan.overlaps('x.mask', plan.required)}"
    if not plan.has_whole_seconds:
        return f"arrayFilter(x -> {condition}, arraySlice(history, entry.at + 1))"
    entry = f"({_entry_time(plan)}, first_event.seq, first_event.event_id)"
    after = f"(x.late, x.seq, x.event_id) > {entry} AND NOT has(served, i)"
    return f"""arraySort(x -> (x.late, x.seq, x.event_id), arrayFilter(
                   (x, i) -> {condition} AND {after}, history, arrayEnumerate(history)))"""


def _add_served(plan: Plan, entries: str) -> str:
    """Add the column `served` with the positions of the events that completed or filled step 1.

    It is needed only if step 1 is a group, or if events may have times in whole seconds.
    """
    first = plan.steps[0]
    if not first.row.all_of:
        if not plan.has_whole_seconds:
            return entries
        return f"SELECT *, [entry.at] AS served FROM ({entries})"
    places = ", ".join(
        f"entry.began - 1 + arrayFirstIndex(x -> {plan.overlaps('x.mask', bit)}, own)"
        for bit in first.each
    )
    return f"""
        SELECT *, [{places}] AS served FROM (
            SELECT *, arraySlice(history, entry.began, entry.at - entry.began + 1) AS own
            FROM ({entries}))"""


def _early_ties(plan: Plan) -> str:
    """Count ties (rule 3) among events with the entry's time that were read before the entry.

    These events match step 2, were not used for step 1, and are not provably before the entry.
    """
    conditions = [
        "i < entry.at",
        f"{'x.late' if plan.has_whole_seconds else 'x.ts'} = {_entry_time(plan)}",
        plan.overlaps("x.mask", plan.steps[1].all),
        f"(first_event.seq = {UNUSABLE} OR x.seq = first_event.seq)",
    ]
    if plan.steps[0].row.all_of:
        conditions.append("NOT has(served, i)")
    return f"arrayCount((x, i) -> {' AND '.join(conditions)}, history, arrayEnumerate(history))"


def _equals_previous(values: str) -> str:
    """Return an array that shows for each value whether it equals the previous value."""
    previous = f"arrayPopBack(arrayPushFront({values}, {values}[1]))"
    return f"arrayMap((now, previous) -> now = previous, {values}, {previous})"


def _folds_conflicts(plan: Plan) -> bool:
    """Whether the fold itself finds conflicts.

    It does for visitors, where only accepted events can conflict.
    """
    return not plan.by_attempt and plan.breadth > 0


def _conflicts(plan: Plan, events: str) -> str:
    """Return a mask for each event, with a bit for each entry value that the event contradicts.

    Missing values do not contradict any value.
    """
    bits = []
    for j in range(plan.breadth):
        value, entry_value = f"x.keys[{j + 1}]", f"entry_keys[{j + 1}]"
        bits.append(
            f"{1 << j} * ({value} != 0 AND {entry_value} != 0 AND {value} != {entry_value})"
        )
    return f"arrayMap(x -> toUInt8({' + '.join(bits)}), {events})"


def _unit_conflicts(plan: Plan) -> str:
    """Return a mask with a bit for each entry value that a later event contradicts.

    For visitors, only accepted events count, because visitors can enter again. For attempts, all
    events inside the window that match a required step count. Source: semantics, "Data quality".
    """
    if _folds_conflicts(plan):
        return "progress.conflicts"
    if not plan.breadth:
        return "toUInt8(0)"
    return f"arrayReduce('groupBitOr', {_conflicts(plan, 'later')})"


class _Field(NamedTuple):
    """One field of the fold's state.

    start: its value right after the entry. The other expressions return its value after an event.
    They read the previous state as `s`, and the event's ts, seq, mask, conflicts, same_ts (whether
    its time equals the previous event's) and same_seq (whether its time and number do). completed:
    the value if the event completed a step. filled: the value if it filled a part of a group.
    passed: the value if it did neither; None if the value does not change.
    """

    name: str
    type: str
    start: str
    completed: str
    filled: str
    passed: str | None = None


def _state(plan: Plan, *, detailed: bool) -> list[_Field]:
    """Return the fields of the fold's state.

    Source: semantics, "Progress after entry", rules 2 to 5.
    """
    hit = _hit(plan)
    least = least_next_number("seq", "s.least")
    fields = [
        _Field("reached", "UInt8", "1", "s.reached + 1", "s.reached"),
        _Field("last_ts", "Int64", _entry_time(plan), "ts", "s.last_ts"),
        _Field("last_seq", "UInt64", "first_event.seq", "seq", "s.last_seq"),
        _Field("least", "UInt64", "entry.least", least, least),
        _Field("skips", "UInt32", "0", "s.skips", "s.skips"),
        *_tie_fields(plan),
    ]
    if _folds_conflicts(plan):
        conflicts = "bitOr(s.conflicts, conflicts)"
        fields.append(_Field("conflicts", "UInt8", "0", conflicts, conflicts))
    groups = _groups(plan)
    if any(groups):
        none, filled = plan.mask(0), f"bitOr(s.filled, {hit})"
        fields.append(_Field("filled", plan.mask_type, none, none, filled))
    if plan.definition.has_options:
        counted = f"if({_choose_by_group(groups, '1', '0')}, {hit}, {_lowest_bit(plan, hit)})"
        chosen = f"bitOr(s.chosen, {counted})"
        fields.append(
            _Field(
                "chosen", plan.mask_type, _chosen_at_entry(plan), chosen, f"bitOr(s.chosen, {hit})"
            )
        )
    if detailed or any(bits.row.diagnostic for bits in plan.rows):
        done = "arrayPushBack(s.done, ts)"
        fields.append(_Field("done", "Array(Int64)", f"[{_entry_time(plan)}]", done, "s.done"))
    return fields


def _tie_fields(plan: Plan) -> Iterator[_Field]:
    """Return the fields that count ties (rule 3).

    When an event completes a step, some events with the same time that were read earlier become
    ties: those that match the next step and were not used for any step, since their order is
    unknown. early: number of such events so far with the time of the last event. early_same: number
    of such events that also have the last event's sequence number. The others are provably before
    an event with a usable number.
    """
    then_next = plan.masks([*(step.all for step in plan.steps), 0, 0])
    hit = f"(bitAnd(mask, {then_next}[s.reached + 2]) != 0)"
    early, passed_over = "s.early * same_ts", "s.early * same_ts"
    if plan.definition.sequence_property is not None:
        same = "s.early_same * same_seq"
        passed_over = f"if(seq = {UNUSABLE}, {early}, {same})"
        yield _Field("early_same", "UInt32", "0", "0", same, f"{same} + {hit}")
    yield _Field("early", "UInt32", "0", "0", early, f"{early} + {hit}")
    yield _Field("ties", "UInt32", "early_ties", f"s.ties + {passed_over}", "s.ties")


def _step(plan: Plan, state: list[_Field]) -> str:
    """Return the state after an event.

    Each condition appears only once, because the engine analyses every copy.
    """
    candidate = f"{_hit(plan)} != 0"  # rule 2
    after = (
        f"ts > s.last_ts OR (ts = s.last_ts AND seq != {UNUSABLE} AND seq > s.last_seq)"  # rule 3
    )
    fresh = "seq >= s.least"  # rule 4
    accepted = _tuple(item.completed for item in state)  # rule 5
    groups = _groups(plan)
    if any(groups):
        full = f"bitOr(s.filled, {_hit(plan)}) = {_next_step(plan)}"
        filled = _tuple(item.filled for item in state)
        accepted = f"if({_choose_by_group(groups, '0', '1')} OR {full}, {accepted}, {filled})"
    skip, tie, ignored = (_tuple(_add_one(state, name)) for name in ("skips", "ties", None))
    return f"if({candidate}, if({after}, if({fresh}, {accepted}, {skip}), {tie}), {ignored})"


def _add_one(state: list[_Field], name: str | None) -> Iterator[str]:
    """Return the state after an event that was not used for any step.

    name: a field to increment.
    """
    for item in state:
        passed = item.passed or f"s.{item.name}"
        yield f"{passed} + 1" if item.name == name else passed


def _tuple(values: Iterable[str]) -> str:
    return f"tuple({', '.join(values)})"


def _groups(plan: Plan) -> list[bool]:
    return [step.row.all_of for step in plan.steps]


def _next_step(plan: Plan) -> str:
    """Return the mask of the next step's matches."""
    # After the last step no event may match, so the list ends with an empty mask.
    return f"{plan.masks([*(step.all for step in plan.steps), 0])}[s.reached + 1]"


def _hit(plan: Plan) -> str:
    """Return the next step's matches that the event satisfies and that are not filled yet."""
    if not any(_groups(plan)):
        return f"bitAnd(mask, {_next_step(plan)})"
    return f"bitAnd(mask, bitAnd({_next_step(plan)}, bitNot(s.filled)))"


def _choose_by_group(groups: list[bool], group: str, plain: str) -> str:
    """Choose between two constants, depending on whether the next step is a group."""
    if all(groups) or not any(groups):
        return group if groups[0] else plain
    constants = [group if is_group else plain for is_group in [*groups, False]]
    return f"[{', '.join(constants)}][s.reached + 1]"


def _chosen_matches(plan: Plan) -> str:
    """Return the mask of the matches for which a unit's accepted events counted."""
    if plan.definition.has_options:
        return "progress.chosen"
    # Each step has one match, so the mask depends only on the number of completed steps.
    counts = range(1, len(plan.steps) + 1)
    return f"{plan.masks([sum(step.all for step in plan.steps[:k]) for k in counts])}[reached]"


def _chosen_at_entry(plan: Plan) -> str:
    first = plan.steps[0]
    return (
        plan.mask(first.all)
        if first.row.all_of
        else _lowest_bit(plan, f"bitAnd(first_event.mask, {plan.mask(first.all)})")
    )


def _lowest_bit(plan: Plan, mask: str) -> str:
    """Return the mask of the first matching option."""
    return f"to{plan.mask_type}(bitAnd({mask}, bitNot({mask} - {plan.mask(1)})))"


def _has_several_visitors(plan: Plan) -> str:
    if not plan.by_attempt:
        return "toUInt8(0)"
    return f"arrayUniq({_visitors_of_steps(plan)}) > 1"


def _visitors_of_steps(plan: Plan) -> str:
    """Return the visitors of all events that match a required step."""
    required = f"arrayFilter(x -> {plan.overlaps('x.mask', plan.required)}, history)"
    return f"arrayMap(x -> x.visitor, {required})"


def _stored_columns(plan: Plan) -> str:
    """Select the time of a unit's first event, and its visitors if it has several."""
    visitors = f"arraySort(arrayDistinct({_visitors_of_steps(plan)}))"
    return f"if(several, {visitors}, []) AS visitors, history[1].ts AS first_ts,"


def _diagnostic_counts(plan: Plan) -> str:
    """Count the events of each diagnostic row; 0 if the unit did not reach the row.

    The counts are followed by a flag for each diagnostic row that is a group: whether each of its
    parts has an event. Source: semantics, "Diagnostic rows".
    """
    counts, groups, step = [], [], 0
    for bits in plan.rows:
        if not bits.row.diagnostic:
            step += 1
            continue
        inside = _is_inside(plan, bits, step)
        counts.append(f"if(reached >= {step}, arrayCount(x -> {inside}, history), 0)")
        if bits.row.all_of:
            every, none = plan.mask(bits.all), plan.mask(0)
            seen = f"arrayFilter(x -> {inside}, history)"
            filled = f"arrayFold((s, x) -> bitOr(s, x.mask), {seen}, {none})"
            groups.append(f"(reached >= {step} AND bitAnd({filled}, {every}) = {every})")
    return f"CAST([{', '.join(counts + groups)}], 'Array(UInt32)')"


def _is_inside(plan: Plan, bits: RowBits, step: int) -> str:
    """Whether a diagnostic row counts the event `x`. step: number of the step above the row."""
    if step:
        since = _ms(plan, f"progress.done[{step}]")
        until = f"if(reached > {step}, {_ms(plan, f'progress.done[{step + 1}]')}, window_end)"
    else:
        since = "" if plan.window_ms is None else f"entry_ts - {plan.window_ms}"
        until = "entry_ts"
    end = _ms(plan, "x.late") if plan.has_whole_seconds else "x.ts"
    conditions = [f"{end} >= {since}"] if since else []
    conditions += [f"x.ts <= {until}", plan.overlaps("x.mask", bits.all)]
    return " AND ".join(conditions)


def _select_furthest(plan: Plan, outcome: str, columns: tuple[str, ...]) -> str:
    """Select each visitor's entry that leads furthest, overall or in each span.

    Of several such entries, the earliest counts. Source: semantics, "Visitor funnels" and "Trend".
    """
    span = "" if plan.spans is None else f", {plan.span('entry_ts')}"
    best = ", ".join(f"best.{place} AS {column}" for place, column in enumerate(columns, start=1))
    return f"""
        SELECT unit, {best} FROM (
            SELECT unit, argMax(tuple({", ".join(columns)}),
                                tuple(reached, -toInt64(entry_at))) AS best
            FROM ({outcome}) GROUP BY unit{span})"""
