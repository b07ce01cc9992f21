"""The general fold: every counting rule, for any definition and any order of events.

Reads the columns of `query.matched_events` and gives one row per counted unit (`UNIT_COLUMNS`).
Stages, each a subquery:

    histories   a unit's events, sorted (semantics, "Order")
                limits: `MAX_UNIT_EVENTS`, and of entries `MAX_COMPARISONS`
    entries     where step 1 is complete ("Entry"): once for an attempt, for a visitor each time
                that the period contains
    values      the entry's values, decided by agreement where tied events have no usable order
    folded      the progress after each entry ("Progress after entry")
    units       the one entry that counts, with the events that diagnostic rows counted
"""

from typing import NamedTuple

from penstock.funnels.statements.entries import (
    MAX_UNIT_EVENTS,
    after_number,
    entries_of,
    max_entries,
    open_parts,
)
from penstock.funnels.statements.query import UNUSABLE, Plan, RowBits

UNIT_COLUMNS = (
    "keys",  # Array(UInt64): hashes of the entry values, 0 for missing
    "reached",  # steps completed, from 1
    "entry_ts",  # milliseconds
    "done_ts",  # milliseconds of the last completed step
    "chosen",  # mask of the matches that the accepted events counted for
    "skips",
    "ties",
    "invalid",
    "tied",  # 1 if the entry values were decided by agreement
    "conflicts",  # bit j: a later event disagrees with entry value j
    "several",  # 1 if events of more than one visitor match steps of the attempt
    "seen",  # Array(UInt32): events that each diagnostic row counted
    "cut",  # 1 if only its first events or entries were read
)


DETAIL_COLUMNS = (
    "done",  # Array(Int64): milliseconds at which each step was completed
    "window_end",  # the window's last millisecond
)


def _event_type(plan: Plan) -> str:
    """Named here: on its way to the shards of a cluster a tuple loses names that it infers."""
    return (
        f"Tuple(ts Int64, seq UInt64, event_id String, mask {plan.mask_type}, "
        "keys Array(UInt64), invalid UInt8, visitor UInt64)"
    )


def general_units(plan: Plan, matched: str, *, detailed: bool = False) -> str:
    """One row per counted unit.

    matched: a relation with the columns of `matched_events`. detailed: with `DETAIL_COLUMNS`.
    """
    keys = ", ".join(f"key_{j}" for j in range(1, plan.breadth + 1))
    histories = f"""
        SELECT unit,
               arraySort(groupArray(CAST(
                   (ts, seq, event_id, mask, CAST([{keys}], 'Array(UInt64)'), invalid, visitor),
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
    values = f"""
        SELECT *,
               {open_parts(plan)} AS open_parts,
               arrayFilter(x -> x.ts = entry_ts AND bitAnd(x.mask, open_parts) != 0,
                           history) AS tied_events,
               length(tied_events) > 1
                   AND (has(tied_events.seq, {UNUSABLE})
                        OR length(arrayDistinct(tied_events.seq)) < length(tied_events)) AS tied,
               arrayMap(j -> if(tied AND arrayUniq(arrayMap(x -> x.keys[j], tied_events)) > 1,
                                0, first_event.keys[j]),
                        range(1, {plan.breadth + 1})) AS entry_keys
        FROM ({entries}) WHERE {plan.in_period("entry_ts")}"""
    state = _state(plan, detailed=detailed)
    inputs = {"ts": "followers.ts", "seq": "followers.seq", "mask": "followers.mask"}
    if _folds_conflicts(plan):
        inputs["conflicts"] = _follower_conflicts(plan)
    state_type = "Tuple(" + ", ".join(f"{item.name} {item.type}" for item in state) + ")"
    start = ", ".join(item.start for item in state)
    step = ", ".join(item.next for item in state)
    # Without short circuits: the fold's conditions are cheap, and taking rows out of columns for
    # each of them is not.
    folded = f"""
        SELECT *,
               {_followers(plan)} AS followers,
               arrayFold((s, {", ".join(inputs)}) -> CAST(({step}), '{state_type}'),
                         {", ".join(inputs.values())},
                         CAST(({start}), '{state_type}')) AS progress
        FROM ({values})
        SETTINGS short_circuit_function_evaluation = 'disable'"""
    outcome = f"""
        SELECT unit, entry_keys AS keys, progress.reached AS reached, entry_ts,
               progress.last_ts AS done_ts, {_chosen(plan)} AS chosen,
               progress.skips AS skips, progress.ties AS ties,
               arrayCount(x -> x.invalid AND {plan.overlaps("x.mask", plan.required)},
                          history) AS invalid,
               tied, {_unit_conflicts(plan)} AS conflicts,
               {_several(plan)} AS several,
               {_seen(plan)} AS seen, cut,
               {"progress.done AS done, window_end," if detailed else ""}
               {_more(plan) if plan.keeps_more else ""}
               entry.at AS entry_at
        FROM ({folded})"""
    if plan.by_attempt:
        return outcome
    return _furthest(outcome, UNIT_COLUMNS + DETAIL_COLUMNS if detailed else UNIT_COLUMNS)


def _followers(plan: Plan) -> str:
    """The events after the entry and inside the window (rule 1) that match any later step."""
    later = plan.overlaps("x.mask", sum(step.all for step in plan.steps[1:]))
    return f"arrayFilter(x -> x.ts <= window_end AND {later}, arraySlice(history, entry.at + 1))"


def _folds_conflicts(plan: Plan) -> bool:
    """Whether acceptance decides which events can conflict: so for visitors, not for attempts."""
    return not plan.by_attempt and plan.breadth > 0


def _follower_conflicts(plan: Plan) -> str:
    """For each follower, a bit per entry value that it disagrees with."""
    bits = " + ".join(f"{1 << j} * ({_disagrees(j + 1)})" for j in range(plan.breadth))
    return f"arrayMap(x -> toUInt8({bits}), followers)"


def _unit_conflicts(plan: Plan) -> str:
    """A bit per entry value that a later event disagrees with. Source: semantics, "Data quality".

    Of a visitor, who may enter again: an accepted event. Of an attempt: any event inside the
    window that matches a required step, accepted or not.
    """
    if _folds_conflicts(plan):
        return "progress.conflicts"
    later = f"x.ts <= window_end AND {plan.overlaps('x.mask', plan.required)}"
    bits = [
        f"{1 << j} * arrayExists(x -> {later} AND {_disagrees(j + 1)},"
        " arraySlice(history, entry.at + 1))"
        for j in range(plan.breadth)
    ]
    return f"toUInt8({' + '.join(bits) or '0'})"


def _disagrees(place: int) -> str:
    """Whether event `x` and the entry have different values of a property, neither missing."""
    value, entry_value = f"x.keys[{place}]", f"entry_keys[{place}]"
    return f"{value} != 0 AND {entry_value} != 0 AND {value} != {entry_value}"


class _Field(NamedTuple):
    """One field of the fold's state.

    start: its value right after the entry. next: its value after an event (ts, seq, mask and, for
    `_folds_conflicts`, conflicts); `s` is the state before that event.
    """

    name: str
    type: str
    start: str
    next: str


def _state(plan: Plan, *, detailed: bool) -> list[_Field]:
    """The state of the fold. Source: semantics, "Progress after entry", rules 2 to 5."""
    groups = [step.row.all_of for step in plan.steps]
    # No event matches after the last step: the list has one more mask than there are steps.
    masks = [*(plan.mask(step.all) for step in plan.steps), plan.mask(0)]
    next_step = f"[{', '.join(masks)}][s.reached + 1]"
    hit = (
        f"bitAnd(mask, {next_step})"
        if not any(groups)
        else f"bitAnd(mask, bitAnd({next_step}, bitNot(s.filled)))"
    )
    candidate = f"({hit} != 0)"  # rule 2
    after = (
        f"(ts > s.last_ts OR (ts = s.last_ts AND seq != {UNUSABLE} AND seq > s.last_seq))"  # rule 3
    )
    fresh = "(seq >= s.least)"  # rule 4
    accepted = f"({candidate} AND {after} AND {fresh})"  # rule 5
    completes = accepted
    if any(groups):
        full = f"bitOr(s.filled, {hit}) = {next_step}"
        completes = f"({accepted} AND ({_of_group(groups, '0', '1')} OR {full}))"
    fields = [
        _Field("reached", "UInt8", "1", f"s.reached + {completes}"),
        _Field("last_ts", "Int64", "entry_ts", f"if({completes}, ts, s.last_ts)"),
        _Field("last_seq", "UInt64", "first_event.seq", f"if({completes}, seq, s.last_seq)"),
        _Field(
            "least",
            "UInt64",
            "entry.least",
            f"if({accepted}, {after_number('seq', 's.least')}, s.least)",
        ),
        _Field("skips", "UInt32", "0", f"s.skips + ({candidate} AND {after} AND NOT {fresh})"),
        _Field("ties", "UInt32", "0", f"s.ties + ({candidate} AND NOT {after})"),
    ]
    if _folds_conflicts(plan):
        conflicts = f"if({accepted}, bitOr(s.conflicts, conflicts), s.conflicts)"
        fields.append(_Field("conflicts", "UInt8", "0", conflicts))
    if any(groups):
        filled = (
            f"multiIf({completes}, {plan.mask(0)}, {accepted}, bitOr(s.filled, {hit}), s.filled)"
        )
        fields.append(_Field("filled", plan.mask_type, plan.mask(0), filled))
    if _has_options(plan):
        counted = f"if({_of_group(groups, '1', '0')}, {hit}, {_lowest_bit(plan, hit)})"
        fields.append(
            _Field(
                "chosen",
                plan.mask_type,
                _chosen_at_entry(plan),
                f"if({accepted}, bitOr(s.chosen, {counted}), s.chosen)",
            )
        )
    if detailed or any(bits.row.diagnostic for bits in plan.rows):
        fields.append(
            _Field(
                "done",
                "Array(Int64)",
                "[entry_ts]",
                f"if({completes}, arrayPushBack(s.done, ts), s.done)",
            )
        )
    return fields


def _of_group(groups: list[bool], group: str, plain: str) -> str:
    """One of two constants, depending on whether the next step is a group."""
    if all(groups) or not any(groups):
        return group if groups[0] else plain
    constants = [group if is_group else plain for is_group in [*groups, False]]
    return f"[{', '.join(constants)}][s.reached + 1]"


def _has_options(plan: Plan) -> bool:
    return any(len(step.each) > 1 for step in plan.steps)


def _chosen(plan: Plan) -> str:
    """The matches that a unit's accepted events counted for."""
    if _has_options(plan):
        return "progress.chosen"
    # One match a step: the masks of the first step, the first two, and so on.
    counts = range(1, len(plan.steps) + 1)
    masks = [plan.mask(sum(step.all for step in plan.steps[:k])) for k in counts]
    return f"[{', '.join(masks)}][reached]"


def _chosen_at_entry(plan: Plan) -> str:
    first = plan.steps[0]
    return (
        plan.mask(first.all)
        if first.row.all_of
        else _lowest_bit(plan, f"bitAnd(first_event.mask, {plan.mask(first.all)})")
    )


def _lowest_bit(plan: Plan, mask: str) -> str:
    """The first matching option, as a mask."""
    return f"to{plan.mask_type}(bitAnd({mask}, bitNot({mask} - {plan.mask(1)})))"


def _several(plan: Plan) -> str:
    if not plan.by_attempt:
        return "toUInt8(0)"
    return f"arrayUniq({_visitors_of_steps(plan)}) > 1"


def _visitors_of_steps(plan: Plan) -> str:
    """The visitor of each event that matches a required step."""
    required = f"arrayFilter(x -> {plan.overlaps('x.mask', plan.required)}, history)"
    return f"arrayMap(x -> x.visitor, {required})"


def _more(plan: Plan) -> str:
    """A unit's visitors if there are several, and the time of its first event."""
    visitors = f"arraySort(arrayDistinct({_visitors_of_steps(plan)}))"
    return f"if(several, {visitors}, []) AS visitors, history[1].ts AS first_ts,"


def _seen(plan: Plan) -> str:
    """The number of events that each diagnostic row counted; 0 if the unit did not get so far.

    Source: semantics, "Diagnostic rows".
    """
    counts, step = [], 0
    for bits in plan.rows:
        if not bits.row.diagnostic:
            step += 1
            continue
        counts.append(_seen_by(plan, bits, step))
    return f"CAST([{', '.join(counts)}], 'Array(UInt32)')"


def _seen_by(plan: Plan, bits: RowBits, step: int) -> str:
    since = f"progress.done[{step}]"
    until = f"if(reached > {step}, progress.done[{step + 1}], window_end)"
    inside = f"x.ts >= {since} AND x.ts <= {until} AND {plan.overlaps('x.mask', bits.all)}"
    return f"if(reached >= {step}, arrayCount(x -> {inside}, history), 0)"


def _furthest(outcome: str, columns: tuple[str, ...]) -> str:
    """The visitor's entry that leads furthest, among equals the earliest.

    Source: semantics, "Visitor funnels".
    """
    best = ", ".join(f"best.{place} AS {column}" for place, column in enumerate(columns, start=1))
    return f"""
        SELECT unit, {best} FROM (
            SELECT unit, argMax(tuple({", ".join(columns)}),
                                tuple(reached, -toInt64(entry_at))) AS best
            FROM ({outcome}) GROUP BY unit)"""
