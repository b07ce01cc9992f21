"""The progress of a unit after its entry: an `arrayFold` over the events that follow it.

Source: semantics, "Progress after entry".
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.funnels.statements import step_order
from penstock.funnels.statements.any_order import steps_in_any_order
from penstock.funnels.statements.breakdown import SERVED_TYPE
from penstock.funnels.statements.entries import least_next_number
from penstock.funnels.statements.equal_times import keeps_ranks, served_masks
from penstock.funnels.statements.exclusions import (
    NOT_EXCLUDED,
    contested_ties,
    excludes_in,
    fold_inputs,
    followed_bits,
    gaps,
)
from penstock.funnels.statements.query import UNUSABLE, Plan
from penstock.funnels.statements.times import entry_time, ms

_AFTER = f"(ts > s.last_ts OR (ts = s.last_ts AND seq != {UNUSABLE} AND seq > s.last_seq))"
"""Whether an event is provably after the event that completed the last step."""


def folded_units(plan: Plan, values: str, *, detailed: bool) -> str:
    """Add the column `progress`, a tuple with the fields of `_state`.

    values: a relation with the columns of `values` in `penstock.funnels.statements.fold`.
    """
    if plan.definition.in_any_order:
        return steps_in_any_order(plan, values, keeps_conflicts=folds_conflicts(plan))
    followers = f"""
        SELECT *, {_followers(plan)} AS followers, {_early_ties(plan)} AS early_ties
        FROM ({values})"""
    state = _state(plan, detailed=detailed)
    events, time = "followers", "late" if plan.has_whole_seconds else "ts"
    if plan.definition.in_step_order:
        same_time = _equals_previous(f"followers.{time}")
        followers = f"SELECT *, {step_order.reading(plan, same_time)} FROM ({followers})"
        events = "reading"
    times, numbers = f"{events}.{time}", f"{events}.seq"
    inputs = {"ts": times, "seq": numbers, "mask": f"{events}.mask"}
    same_ts = same_seq = _equals_previous(times)
    if plan.definition.sequence_property is not None:
        same_seq = _equals_previous(times, numbers)
    if plan.definition.in_step_order:
        inputs |= {"event_id": f"{events}.event_id", "awaited": "awaited"}
    elif keeps_ranks(plan):
        followers = f"""
        SELECT *, {served_masks(plan, "same_order")} AS served_masks
        FROM (SELECT *, {same_seq} AS same_order FROM ({followers}))
        SETTINGS short_circuit_function_evaluation = 'enable'"""
        inputs["own"] = "served_masks"
    inputs["same_ts"] = same_ts
    if plan.definition.sequence_property is not None:
        inputs["same_seq"] = same_seq
    if plan.excludes:
        inputs |= fold_inputs(plan, events, same_ts, same_seq)
    if not plan.definition.is_by_entry:
        inputs["keys"] = f"{events}.keys"
    if folds_conflicts(plan):
        inputs["conflicts"] = conflicts(plan, events)
    state_type = "Tuple(" + ", ".join(f"{item.name} {item.type}" for item in state) + ")"
    start = ", ".join(item.start for item in state)
    step = _step(plan, state)
    # Short circuits are off because the fold's conditions are cheap, while picking rows for each
    # condition is not.
    return f"""
        SELECT *,
               arrayFold((s, {", ".join(inputs)}) -> CAST({step}, '{state_type}'),
                         {", ".join(inputs.values())},
                         CAST(({start}), '{state_type}')) AS progress
        FROM ({followers})
        SETTINGS short_circuit_function_evaluation = 'disable'"""


def _followers(plan: Plan) -> str:
    """Return the later events inside the window (rule 1) that can affect the unit."""
    return f"arrayFilter(x -> {plan.overlaps('x.mask', followed_bits(plan))}, later)"


def _early_ties(plan: Plan) -> str:
    """Count ties (rule 3) among events with the entry's time that were read before the entry.

    These events match step 2 or would exclude the unit before it, were not used for step 1, and are
    not provably before the entry.
    """
    if plan.definition.in_step_order:  # The fold reads these events.
        return "toUInt64(0)"
    awaited = plan.overlaps("x.mask", plan.steps[1].all)
    if plan.excludes:
        awaited = f"({awaited} OR {excludes_in('1', gaps(plan, 'x.mask'))})"
    conditions = [
        "i < entry.at",
        f"{'x.late' if plan.has_whole_seconds else 'x.ts'} = {entry_time(plan)}",
        awaited,
        f"(first_event.seq = {UNUSABLE} OR x.seq = first_event.seq)",
    ]
    if plan.steps[0].row.all_of:
        conditions.append("NOT has(served, i)")
    return f"arrayCount((x, i) -> {' AND '.join(conditions)}, history, arrayEnumerate(history))"


def _equals_previous(*values: str) -> str:
    """Return an array that shows for each event whether all values equal those of the previous."""
    names = [f"change_{number}" for number in range(len(values))]
    changes = ", ".join(f"arrayDifference({value})" for value in values)
    is_same = " AND ".join(f"{name} = 0" for name in names)
    return f"arrayMap(({', '.join(names)}) -> {is_same}, {changes})"


def folds_conflicts(plan: Plan) -> bool:
    """Whether the fold itself finds conflicts.

    It does for visitors, where only accepted events can conflict.
    """
    return not plan.by_attempt and plan.breadth > 0 and plan.definition.is_by_entry


def conflicts(plan: Plan, events: str) -> str:
    """Return a mask for each event, with a bit for each entry value that the event contradicts.

    Missing values do not contradict any value. The event must be proven to come after the entry.
    """
    time = "x.late" if plan.has_whole_seconds else "x.ts"
    entry_at, number = entry_time(plan), "first_event.seq"
    # An unusable number is greater than all others.
    is_after = f"x.seq != {UNUSABLE} AND x.seq > {number}"
    is_later = f"({time} > {entry_at} OR ({time} = {entry_at} AND {is_after}))"
    bits = []
    for j in range(plan.breadth):
        value, entry_value = f"x.keys[{j + 1}]", f"entry_keys[{j + 1}]"
        bits.append(
            f"{1 << j} * ({value} != 0 AND {entry_value} != 0 AND {value} != {entry_value})"
        )
    return f"arrayMap(x -> toUInt8(({' + '.join(bits)}) * {is_later}), {events})"


class _Field(NamedTuple):
    """One field of the fold's state.

    start: its value right after the entry. The other expressions return its value after an event.
    They read the previous state as `s`, and the event's ts, seq, mask, own (its mask without the
    matches that others of the same order serve), conflicts, same_ts (whether its time equals the
    previous event's) and same_seq (whether its time and number do). completed:
    the value if the event completed a step. filled: the value if it filled a part of a group.
    passed: the value if it did neither; None if the value does not change. excluded: the value if
    the event excluded the unit; None if the value does not change. tied, skipped: the values if
    rule 3 or rule 4 refused the event; None for `passed`.
    """

    name: str
    type: str
    start: str
    completed: str
    filled: str
    passed: str | None = None
    excluded: str | None = None
    tied: str | None = None
    skipped: str | None = None


def _state(plan: Plan, *, detailed: bool) -> list[_Field]:
    """Return the fields of the fold's state.

    Source: semantics, "Progress after entry", rules 2 to 5.
    """
    hit = _hit(plan, mask=_own(plan))
    least = least_next_number("seq", "s.least")
    fields = [
        _Field("reached", "UInt8", "1", "s.reached + 1", "s.reached"),
        _Field("last_ts", "Int64", entry_time(plan), "ts", "s.last_ts"),
        _Field("last_seq", "UInt64", "first_event.seq", "seq", "s.last_seq"),
        _Field("least", "UInt64", "entry.least", least, least),
        *(_refusals_in_step_order(plan) if plan.definition.in_step_order else _refusals(plan)),
    ]
    if folds_conflicts(plan):
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
    if plan.excludes:
        by_other = f"NOT {excludes_in('s.reached', 'bitOr(gaps, same_gaps)')}"
        fields += [
            _Field("excluded", "UInt8", "0", "0", "0", excluded="1"),
            _Field("ended_ts", "Int64", "0", "0", "0", excluded="ts"),
            _Field(
                "ended_seq", "UInt64", "0", "0", "0", excluded=f"if({by_other}, {UNUSABLE}, seq)"
            ),
        ]
    if not plan.definition.is_by_entry:
        served = "arrayPushBack(s.served, (s.reached + 1, ts, seq, keys))"
        fields.append(_Field("served", SERVED_TYPE, _served_at_entry(plan), served, served))
        detailed = True
    if detailed or any(bits.row.diagnostic for bits in plan.rows):
        done = "arrayPushBack(s.done, ts)"
        fields.append(_Field("done", "Array(Int64)", f"[{entry_time(plan)}]", done, "s.done"))
    return fields


def _refusals_in_step_order(plan: Plan) -> list[_Field]:
    """Return the fields for reading events of one time again. An event is refused only once.

    After an exclusion, they keep the events of its time, for `contested_ties`.
    """
    used, refused = step_order.USED, step_order.REFUSED
    if plan.excludes:
        used, refused = f"if(s.excluded, s.used, {used})", f"if(s.excluded, s.refused, {refused})"
    first, again = step_order.IS_FIRST_REFUSAL, step_order.WITH_REFUSED
    tied = f"NOT ({step_order.IS_EARLIER})"
    assumed = f"s.assumed + NOT ({_AFTER})"
    return [
        _Field("skips", "UInt32", "0", "s.skips", "s.skips", skipped=f"s.skips + {first}"),
        _Field("ties", "UInt32", "0", "s.ties", "s.ties", tied=f"s.ties + ({tied} AND {first})"),
        _Field("assumed", "UInt32", "0", assumed, assumed),
        _Field("used", "Array(String)", "[]", step_order.WITH_USED, step_order.WITH_USED, used),
        _Field(
            "refused",
            "Array(String)",
            "[]",
            refused,
            refused,
            refused,
            tied=f"if({tied}, {again}, {refused})",
            skipped=again,
        ),
    ]


def _refusals(plan: Plan) -> Iterator[_Field]:
    """Return the fields that count skips (rule 4) and ties (rule 3).

    When an event completes a step, some events with the same time that were read earlier become
    ties, since their order is unknown: those that match the next step or would exclude the unit
    there, and were not used for any step. early: number of such events so far with the time of the
    last event. early_same: number of such events that also have the last event's sequence number.
    The others are provably before an event with a usable number.
    """
    yield _Field("skips", "UInt32", "0", "s.skips", "s.skips", skipped="s.skips + 1")
    then_next = plan.masks([*(step.all for step in plan.steps), 0, 0])
    hit = f"(bitAnd(mask, {then_next}[s.reached + 2]) != 0)"
    if plan.excludes:
        hit = f"({hit} OR {excludes_in('s.reached + 1', 'gaps')})"
    early, passed_over = "s.early * same_ts", "s.early * same_ts"
    if plan.definition.sequence_property is not None:
        same = "s.early_same * same_seq"
        passed_over = f"if(seq = {UNUSABLE}, {early}, {same})"
        yield _Field("early_same", "UInt32", "0", "0", same, f"{same} + {hit}")
    yield _Field("early", "UInt32", "0", "0", early, f"{early} + {hit}")
    yield _Field(
        "ties", "UInt32", "early_ties", f"s.ties + {passed_over}", "s.ties", tied="s.ties + 1"
    )


def _step(plan: Plan, state: list[_Field]) -> str:
    """Return the state after an event.

    Each condition appears only once, because the engine analyses every copy.
    """
    served = f"if(ts > s.last_ts, {_own(plan)}, mask)" if _own(plan) != "mask" else "mask"
    candidate = f"{_hit(plan, mask=served)} != 0"  # rule 2
    after = _AFTER  # rule 3
    fresh = "seq >= s.least"  # rule 4
    accepted = _tuple(item.completed for item in state)  # rule 5
    groups = _groups(plan)
    if any(groups):
        full = f"bitOr(s.filled, {_hit(plan, mask=_own(plan))}) = {_next_step(plan)}"
        filled = _tuple(item.filled for item in state)
        accepted = f"if({_choose_by_group(groups, '0', '1')} OR {full}, {accepted}, {filled})"
    passed = [item.passed or f"s.{item.name}" for item in state]
    ignored = _tuple(passed)
    if plan.excludes:
        candidate = f"NOT s.excluded AND ({candidate} OR {excludes_in('s.reached', 'gaps')})"
        excluded = _tuple(item.excluded or f"s.{item.name}" for item in state)
        accepted = f"if({_is_excluded(plan)}, {excluded}, {accepted})"
    if plan.definition.in_step_order:
        candidate = f"{step_order.IS_AWAITED} AND ({candidate})"
        candidate += f" AND NOT has({step_order.USED}, event_id)"
        is_step = f" AND NOT {excludes_in('s.reached', 'gaps')}" if plan.excludes else ""
        after = f"{_AFTER} OR ({step_order.IS_FREE}{is_step})"
    skip = _tuple(item.skipped or value for item, value in zip(state, passed, strict=True))
    tie = _tuple(item.tied or value for item, value in zip(state, passed, strict=True))
    return f"if({candidate}, if({after}, if({fresh}, {accepted}, {skip}), {tie}), {ignored})"


def _is_excluded(plan: Plan) -> str:
    """Whether an event that would be accepted excludes the unit, or another of its time does.

    An exclusion of the same time counts first unless it is provably later. Without a usable number,
    it must not have the time of the last step, whose order is not known either.
    """
    masks = "same_gaps"
    if plan.definition.sequence_property is not None:
        masks = "bitOr(same_gaps, if(ts > s.last_ts, free_gaps, 0))"
    if plan.definition.in_step_order:  # The event may be accepted without proof.
        masks = f"if({_AFTER}, {masks}, 0)"
    return excludes_in("s.reached", masks)


def _tuple(values: Iterable[str]) -> str:
    return f"tuple({', '.join(values)})"


def _groups(plan: Plan) -> list[bool]:
    return [step.row.all_of for step in plan.steps]


def _next_step(plan: Plan, state: str = "s") -> str:
    """Return the mask of the next step's matches."""
    # After the last step no event may match, so the list ends with an empty mask.
    return f"{plan.masks([*(step.all for step in plan.steps), 0])}[{state}.reached + 1]"


def _own(plan: Plan) -> str:
    """Return the name of the mask of the matches that an event may serve."""
    return "own" if keeps_ranks(plan) and not plan.definition.in_step_order else "mask"


def _hit(plan: Plan, state: str = "s", mask: str = "mask") -> str:
    """Return the next step's matches that the event satisfies and that are not filled yet.

    state: name of the state. mask: name of the event's mask.
    """
    if not any(_groups(plan)):
        return f"bitAnd({mask}, {_next_step(plan, state)})"
    return f"bitAnd({mask}, bitAnd({_next_step(plan, state)}, bitNot({state}.filled)))"


def unit_ties(plan: Plan) -> str:
    """Return the number of a unit's unordered ties, from the columns of `folded_units`."""
    if not plan.excludes or plan.definition.in_any_order:
        return "progress.ties"
    contested = contested_ties(plan, _hit(plan, "progress"))
    return f"toUInt32(progress.ties + if(progress.excluded, {contested}, 0))"


def assumed_order(plan: Plan) -> str:
    """Return the number of a unit's events that only step order accepted."""
    return "progress.assumed" if plan.definition.in_step_order else "toUInt32(0)"


def excluded_after(plan: Plan) -> str:
    """Return the milliseconds from a unit's entry to its exclusion; -1 if it is not excluded."""
    if not plan.excludes:
        return NOT_EXCLUDED
    after = f"toInt64({ms(plan, 'progress.ended_ts')} - entry_ts)"
    return f"if(progress.excluded, {after}, {NOT_EXCLUDED})"


def _choose_by_group(groups: list[bool], group: str, plain: str) -> str:
    """Choose between two constants, depending on whether the next step is a group."""
    if all(groups) or not any(groups):
        return group if groups[0] else plain
    constants = [group if is_group else plain for is_group in [*groups, False]]
    return f"[{', '.join(constants)}][s.reached + 1]"


def _chosen_at_entry(plan: Plan) -> str:
    first = plan.steps[0]
    return (
        plan.mask(first.all)
        if first.row.all_of
        else _lowest_bit(plan, f"bitAnd(first_event.mask, {plan.mask(first.all)})")
    )


def _served_at_entry(plan: Plan) -> str:
    """Return the events that completed or filled step 1."""
    if not plan.steps[0].row.all_of:
        return f"[(1, {entry_time(plan)}, first_event.seq, first_event.keys)]"
    time = "2 * x.ts" if plan.has_whole_seconds else "x.ts"
    own = "arrayFilter((x, i) -> has(served, i), history, arrayEnumerate(history))"
    return f"arrayMap(x -> (1, {time}, x.seq, x.keys), {own})"


def _lowest_bit(plan: Plan, mask: str) -> str:
    """Return the mask of the first matching option."""
    return f"to{plan.mask_type}(bitAnd({mask}, bitNot({mask} - {plan.mask(1)})))"
