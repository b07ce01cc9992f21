"""The general fold: every counting rule, for any definition and any order of events.

Reads the columns of `query.matched_events`, gives one row for each counted unit (`UNIT_COLUMNS`). Stages, each a subquery:

    histories   a unit's events, sorted (semantics, "Order")
    entries     where step 1 is completed ("Entry"); an attempt has one, a visitor one for every completion in the period
    values      the entry's values, decided by agreement where tied events have no usable order
    folded      progress after each entry ("Progress after entry")
    units       the one entry that counts, with what the diagnostic rows saw
"""

from penstock.funnels.query import Plan, RowBits

UNIT_COLUMNS = (
    "keys",  # Array(UInt64): hashes of the entry values, 0 for missing
    "reached",  # steps completed, from 1
    "entry_ts",  # milliseconds
    "done_ts",  # milliseconds of the last completed step
    "chosen",  # mask of the matches that the accepted events counted for
    "skips",
    "ties",
    "invalid",
    "tied",  # 1 where entry values were decided by agreement
    "conflicts",  # bit j: an accepted later event disagrees with entry value j
    "several",  # 1 where more than one visitor sent the attempt
    "seen",  # Array(UInt32): events that each diagnostic row saw
)

_STATE = (
    "Tuple(reached UInt8, last_ts Int64, last_unusable UInt8, last_seq UInt64, numbered UInt8, number UInt64, filled {mask}, "
    "chosen {mask}, skips UInt32, ties UInt32, conflicts UInt8, done Array(Int64))"
)


def general_units(plan: Plan, matched: str) -> str:
    """One row for each counted unit. matched: the name of a relation with the columns of `matched_events`."""
    keys = ", ".join(f"key_{j}" for j in range(1, plan.breadth + 1))
    histories = f"""
        SELECT unit,
               arraySort(groupArray(tuple(ts, unusable, seq, event_id, mask, CAST([{keys}], 'Array(UInt64)') AS keys, invalid, visitor))) AS history
        FROM {matched} WHERE unit != 0 GROUP BY unit"""
    entries = f"""
        SELECT unit, history, arrayJoin({_entries(plan)}) AS entry,
               history[entry.at] AS first_event, first_event.ts AS entry_ts,
               {plan.window_end("entry_ts")} AS window_end
        FROM ({histories})"""
    values = f"""
        SELECT *,
               {_open_parts(plan)} AS open_parts,
               arrayFilter(x -> x.ts = entry_ts AND bitAnd(x.mask, open_parts) != 0, history) AS tied_events,
               length(tied_events) > 1
                   AND (arrayExists(x -> x.unusable, tied_events) OR length(arrayDistinct(tied_events.seq)) < length(tied_events)) AS tied,
               if(tied,
                  arrayMap(j -> if(arrayUniq(arrayMap(x -> x.keys[j], tied_events)) = 1, first_event.keys[j], 0), {_breakdown_indices(plan)}),
                  first_event.keys)::Array(UInt64) AS entry_keys
        FROM ({entries}) WHERE {plan.in_period("entry_ts")}"""
    folded = f"""
        SELECT *,
               arrayFold((s, x) -> {_advance(plan)}, {_followers(plan)}, {_start(plan)}) AS progress,
               arrayPushFront(progress.done, entry_ts) AS done
        FROM ({values})"""
    outcome = f"""
        SELECT unit, entry_keys AS keys, progress.reached AS reached, entry_ts, done[reached] AS done_ts, progress.chosen AS chosen,
               progress.skips AS skips, progress.ties AS ties,
               arrayCount(x -> x.invalid AND {plan.overlaps("x.mask", plan.required)}, history) AS invalid,
               tied, progress.conflicts AS conflicts,
               {_several(plan)} AS several,
               {_seen(plan)} AS seen,
               entry.at AS entry_at
        FROM ({folded})"""
    return _furthest(outcome) if not plan.by_attempt else outcome


def _entries(plan: Plan) -> str:
    """Positions in `history` that complete step 1, each with the position where its set of parts began."""
    first = plan.steps[0]
    if first.row.all_of:
        hits = f"bitAnd(x.mask, {plan.mask(first.all)})"
        state = f"Tuple(position UInt32, began UInt32, filled {plan.mask_type}, found Array(Tuple(at UInt32, began UInt32)))"
        step = f"""CAST(if(bitOr(s.filled, {hits}) = {plan.mask(first.all)},
            tuple(toUInt32(s.position + 1), toUInt32(s.position + 1), {plan.mask(0)}, arrayPushBack(s.found, tuple(s.position, s.began))),
            tuple(toUInt32(s.position + 1), s.began, bitOr(s.filled, {hits}), s.found)), '{state}')"""
        positions = f"arrayFold((s, x) -> {step}, history, CAST((1, 1, {plan.mask(0)}, []), '{state}')).found"
    else:
        found = f"arrayFilter((i, x) -> {plan.overlaps('x.mask', first.all)}, arrayEnumerate(history), history)"
        positions = f"arrayMap(i -> CAST((i, 1), 'Tuple(at UInt32, began UInt32)'), {found})"
    if plan.by_attempt:
        return f"arraySlice({positions}, 1, 1)"
    return f"arrayFilter(e -> {plan.in_period('history[e.at].ts')}, {positions})"


def _open_parts(plan: Plan) -> str:
    """The matches of step 1 that were still unfilled just before the entry's timestamp. Source: semantics, "Entry values"."""
    first = plan.steps[0]
    if not first.row.all_of:
        return plan.mask(first.all)
    earlier = "arrayFilter(x -> x.ts < entry_ts, arraySlice(history, entry.began, entry.at - entry.began))"
    filled = f"arrayFold((s, x) -> bitOr(s, x.mask), {earlier}, {plan.mask(0)})"
    return f"bitAnd({plan.mask(first.all)}, bitNot({filled}))"


def _breakdown_indices(plan: Plan) -> str:
    return f"CAST({list(range(1, plan.breadth + 1))}, 'Array(UInt8)')"


def _followers(plan: Plan) -> str:
    """The events after the entry, inside the window, as the fold reads them: with the entry values that each disagrees with."""
    conflicts = " + ".join(
        f"{1 << j} * (x.keys[{j + 1}] != 0 AND entry_keys[{j + 1}] != 0 AND x.keys[{j + 1}] != entry_keys[{j + 1}])"
        for j in range(plan.breadth)
    )
    return f"""arrayMap(x -> tuple(x.ts AS ts, x.unusable AS unusable, x.seq AS seq, x.mask AS mask, toUInt8({conflicts or "0"}) AS conflicts),
            arrayFilter(x -> x.ts <= window_end AND {plan.overlaps("x.mask", plan.required)}, arraySlice(history, entry.at + 1)))"""


def _start(plan: Plan) -> str:
    """The state right after entry."""
    first = plan.steps[0]
    hit = f"bitAnd(first_event.mask, {plan.mask(first.all)})"
    chosen = plan.mask(first.all) if first.row.all_of else _lowest_bit(plan, hit)
    return f"""CAST((1, entry_ts, first_event.unusable, first_event.seq, NOT first_event.unusable, first_event.seq, {plan.mask(0)},
            {chosen}, 0, 0, 0, []), '{_state(plan)}')"""


def _state(plan: Plan) -> str:
    return _STATE.format(mask=plan.mask_type)


def _lowest_bit(plan: Plan, mask: str) -> str:
    """The first matching option, as a mask."""
    return f"to{plan.mask_type}(bitAnd({mask}, bitNot({mask} - {plan.mask(1)})))"


def _advance(plan: Plan) -> str:
    """One event `x` against the state `s`. The numbers are the rules of semantics, "Progress after entry"; rule 1 is in `_followers`."""
    # After the last step nothing is wanted any more: the list has one mask more than there are steps.
    wanted = f"[{', '.join([*(plan.mask(step.all) for step in plan.steps), plan.mask(0)])}][s.reached + 1]"
    hit = f"bitAnd(x.mask, bitAnd({wanted}, bitNot(s.filled)))"
    groups = [step.row.all_of for step in plan.steps]
    counted = _accepted_bits(plan, hit, groups)
    completes = f"bitOr(s.filled, {hit}) = {wanted}" if all(groups) else "1"
    if any(groups) and not all(groups):
        is_group = f"[{', '.join(str(int(group)) for group in [*groups, False])}][s.reached + 1]"
        completes = f"({is_group} = 0 OR bitOr(s.filled, {hit}) = {wanted})"
    after = "(x.ts > s.last_ts OR (x.ts = s.last_ts AND NOT x.unusable AND NOT s.last_unusable AND x.seq > s.last_seq))"
    same = "s.reached, s.last_ts, s.last_unusable, s.last_seq, s.numbered, s.number, s.filled, s.chosen"
    numbering = "if(x.unusable, s.numbered, 1), if(x.unusable, s.number, x.seq)"
    tail = "s.skips, s.ties, bitOr(s.conflicts, x.conflicts)"
    step_done = f"tuple(s.reached + 1, x.ts, x.unusable, x.seq, {numbering}, {plan.mask(0)}, bitOr(s.chosen, {counted}), {tail}, arrayPushBack(s.done, x.ts))"
    part_done = f"tuple(s.reached, s.last_ts, s.last_unusable, s.last_seq, {numbering}, bitOr(s.filled, {hit}), bitOr(s.chosen, {counted}), {tail}, s.done)"
    branches = [
        (f"{hit} = 0", "s"),  # rule 2
        (f"NOT {after}", _cast(plan, f"tuple({same}, s.skips, s.ties + 1, s.conflicts, s.done)")),  # rule 3
        (
            "NOT x.unusable AND s.numbered AND x.seq <= s.number",
            _cast(plan, f"tuple({same}, s.skips + 1, s.ties, s.conflicts, s.done)"),
        ),  # rule 4
    ]
    accepted = _cast(plan, step_done)  # rule 5
    if completes != "1":
        branches.append((completes, accepted))
        accepted = _cast(plan, part_done)
    return f"multiIf({', '.join(f'{condition}, {result}' for condition, result in branches)}, {accepted})"


def _accepted_bits(plan: Plan, hit: str, groups: list[bool]) -> str:
    """Which matches an accepted event counts for: the first matching option of a plain step, every part that it fills of a group."""
    if not any(len(step.each) > 1 for step in plan.steps) or all(groups):
        return hit
    lowest = _lowest_bit(plan, hit)
    if not any(groups):
        return lowest
    is_group = f"[{', '.join(str(int(group)) for group in [*groups, False])}][s.reached + 1]"
    return f"if({is_group}, {hit}, {lowest})"


def _cast(plan: Plan, value: str) -> str:
    return f"CAST({value}, '{_state(plan)}')"


def _several(plan: Plan) -> str:
    if not plan.by_attempt:
        return "toUInt8(0)"
    required = f"arrayFilter(x -> {plan.overlaps('x.mask', plan.required)}, history)"
    return f"arrayUniq(arrayMap(x -> x.visitor, {required})) > 1"


def _seen(plan: Plan) -> str:
    """How many events each diagnostic row saw: 0 where the unit did not come so far. Source: semantics, "Diagnostic rows"."""
    counts, step = [], 0
    for bits in plan.rows:
        if not bits.row.diagnostic:
            step += 1
            continue
        counts.append(_seen_by(plan, bits, step))
    return f"CAST([{', '.join(counts)}], 'Array(UInt32)')"


def _seen_by(plan: Plan, bits: RowBits, step: int) -> str:
    until = f"if(reached > {step}, done[{step + 1}], window_end)"
    inside = f"x.ts >= done[{step}] AND x.ts <= {until} AND {plan.overlaps('x.mask', bits.all)}"
    return f"if(reached >= {step}, arrayCount(x -> {inside}, history), 0)"


def _furthest(outcome: str) -> str:
    """Of a visitor's entries the one that leads furthest, among equals the earliest. Source: semantics, "Visitor funnels"."""
    columns = ", ".join(f"best.{column} AS {column}" for column in UNIT_COLUMNS)
    return f"""
        SELECT unit, {columns} FROM (
            SELECT unit, argMax(tuple({", ".join(UNIT_COLUMNS)}), tuple(reached, -toInt64(entry_at))) AS best
            FROM ({outcome}) GROUP BY unit)"""
