"""The general fold: every counting rule, for any definition and any order of events.

The fold reads the columns of `events.matched_events` and returns one row per counted unit
(`UNIT_COLUMNS`). Each stage is a subquery:

    histories   each unit's sorted events (semantics, "Order"), at most `MAX_UNIT_EVENTS`
    entries     the events that complete step 1 ("Entry"): the first for an attempt, and all in the
                period for a visitor, limited by `MAX_COMPARISONS`
    values      the entry values and the later events. If tied events have no usable order, only
                values on which they agree count.
    folded      the progress after each entry (`penstock.funnels.statements.progress`)
    units       the entry that counts, or the entries of all runs, with the numbers of events that
                diagnostic rows counted
"""

from penstock.funnels.statements.breakdown import add_values
from penstock.funnels.statements.entries import (
    MAX_UNIT_EVENTS,
    entries_of,
    is_ordered_by_time,
    max_entries,
    open_parts,
    starts,
)
from penstock.funnels.statements.entry_filters import (
    are_tied,
    disagreements,
    entry_passes,
    filtered_histories,
)
from penstock.funnels.statements.equal_times import in_reading_order, keeps_ranks, reads_texts
from penstock.funnels.statements.progress import (
    assumed_order,
    conflicts,
    excluded_after,
    folded_units,
    folds_conflicts,
    unit_ties,
)
from penstock.funnels.statements.query import Plan, RowBits
from penstock.funnels.statements.runs import add_parts, own_events, runs
from penstock.funnels.statements.times import all_ms, entry_time, late_time, ms

UNIT_COLUMNS = (
    "keys",  # Array(UInt64): hashes of the entry values, 0 for missing values
    "reached",  # number of completed steps
    "entry_ts",  # milliseconds
    "done_ts",  # milliseconds at which the last completed step was completed
    "chosen",  # mask of the matches that the accepted events counted for
    "skips",
    "ties",
    "invalid",
    "tied",  # 1 if tied events had to agree on the entry values
    "conflicts",  # bit j: a later event disagrees with entry value j
    "several",  # 1 if events of more than one visitor match steps of the attempt
    "seen",  # Array(UInt32): see `_diagnostic_counts`
    "cut",  # 1 if the unit exceeded a limit, so only its first events or entries were read
    "coarse",  # number of events whose whole second contains another event of the unit
    "assumed",  # number of events that only step order accepted
    "excluded_after",  # milliseconds from the entry to the exclusion; -1 if it is not excluded
    "open",  # 1 if the unit has not completed, and still may: its entry, or another of a visitor
)


DETAIL_COLUMNS = (
    "done",  # Array(Int64): milliseconds at which each step was completed
    "window_end",  # the window's last millisecond
)


def _event_fields(plan: Plan) -> dict[str, str]:
    """Return the types of an event's fields by name. Events only carry what the plan reads.

    Fields are named explicitly, because inferred names get lost on the way to cluster shards.
    """
    fields = {"ts": "Int64", "seq": "UInt64", "event_id": "String", "mask": plan.mask_type}
    if plan.breadth:
        fields["keys"] = "Array(UInt64)"
    if reads_texts(plan):
        fields |= {f"text_{j}": "String" for j in range(1, plan.breadth + 1)}
    if plan.definition.sequence_property is not None:
        fields["invalid"] = "UInt8"
    if plan.by_attempt or plan.keeps_visitors:
        fields["visitor"] = "UInt64"
    if plan.has_whole_seconds:
        fields["late"] = "Int64"
    if plan.has_entry_filters:
        fields |= {"passes": "UInt8", "met": "Array(UInt8)", "compared": "Array(UInt64)"}
    return fields


def general_units(plan: Plan, matched: str, *, detailed: bool = False) -> str:
    """Select one row per counted unit.

    matched: a relation with the columns of `matched_events`. detailed: whether to include
    `DETAIL_COLUMNS`.
    """
    keys = ", ".join(f"key_{j}" for j in range(1, plan.breadth + 1))
    computed = {
        "keys": f"CAST([{keys}], 'Array(UInt64)')",
        "late": late_time("ts", "coarse"),
    }
    fields = _event_fields(plan)
    event = ", ".join(computed.get(name, name) for name in fields)
    event_type = f"Tuple({', '.join(f'{name} {kind}' for name, kind in fields.items())})"
    histories = f"""
        SELECT unit, arraySort(groupArray(CAST(({event}), '{event_type}'))) AS events
        FROM {matched} WHERE unit != 0 GROUP BY unit"""
    if keeps_ranks(plan):
        histories = in_reading_order(plan, histories)
    histories = f"""
        SELECT unit, arraySlice(events, 1, {MAX_UNIT_EVENTS}) AS history,
               length(events) > {MAX_UNIT_EVENTS} AS has_more_events
        FROM ({histories})"""
    if plan.has_entry_filters and not plan.steps[0].row.all_of:
        histories = filtered_histories(plan, histories, fields, event_type)
    candidates = f"SELECT unit, history, has_more_events, {entries_of(plan)} AS entries"
    if plan.repeats and plan.steps[0].row.all_of:
        histories = add_parts(plan, histories)
    entries = f"""
        SELECT unit, history,
               has_more_events OR length(entries) > {max_entries(plan)} AS cut,
               arrayJoin(arraySlice(entries, 1, {max_entries(plan)})) AS entry,
               history[entry.at] AS first_event, first_event.ts AS entry_ts,
               {plan.window_end("entry_ts")} AS window_end
        FROM ({candidates}
              FROM ({histories}))"""
    # Each name is defined in a separate subquery. Otherwise, the engine would analyse a copy of
    # its expression wherever it is used.
    counts = "1" if plan.repeats else plan.in_period("entry_ts")
    tied_events = f"""
        SELECT *, {open_parts(plan)} AS open_parts,
               arrayFilter(x -> x.ts = entry_ts AND bitAnd(x.mask, open_parts) != 0,
                           history) AS tied_events
        FROM ({entries})
        WHERE {counts}"""
    tied = f"SELECT *, {are_tied('tied_events')} AS tied FROM ({tied_events})"
    if plan.has_entry_filters:
        disagree = disagreements(plan, "tied_events", "tied")
        passes = entry_passes(plan, "first_event", disagree)
        where = "" if plan.repeats else "WHERE passes"
        tied = f"SELECT * FROM (SELECT *, {passes} AS passes FROM ({tied})) {where}"
    values = f"""
        SELECT *, {_entry_keys(plan)} AS entry_keys,
               {_later_events(plan)} AS later
        FROM ({_add_served(plan, tied)})"""
    own = "own" if plan.repeats else "history"
    own_keys, tied = "entry_keys", "tied"
    if not plan.definition.is_by_entry:
        own_keys, tied = "own_keys", "own_tied AS tied"
    outcome = f"""
        SELECT unit, {own_keys} AS keys, progress.reached AS reached, entry_ts,
               {ms(plan, "progress.last_ts")} AS done_ts, {_chosen_matches(plan)} AS chosen,
               progress.skips AS skips, {unit_ties(plan)} AS ties,
               {_invalid_numbers(plan, own)} AS invalid,
               {tied}, {_unit_conflicts(plan)} AS conflicts,
               {_has_several_visitors(plan)} AS several,
               {_diagnostic_counts(plan)} AS seen, cut, {_coarse_times(plan, own)} AS coarse,
               {excluded_after(plan)} AS excluded_after, {assumed_order(plan)} AS assumed,
               progress.reached < {len(plan.steps)} AND {_may_continue(plan)} AS open,
               {f"{all_ms(plan, 'progress.done')} AS done, window_end," if detailed else ""}
               {_stored_columns(plan) if plan.keeps_visitors else ""}
               {_run_columns(plan) if plan.repeats else ""}
               entry.at AS entry_at
        FROM ({_folded(plan, values, detailed=detailed)})"""
    columns = UNIT_COLUMNS + DETAIL_COLUMNS if detailed else UNIT_COLUMNS
    if plan.repeats:
        outcome = runs(plan, outcome, columns)
    elif not plan.by_attempt:
        outcome = _select_furthest(plan, outcome, columns)
    if not plan.params.settled:
        return outcome
    return f"SELECT * FROM ({outcome}) WHERE 1{plan.has_settled(plan.window_end('entry_ts'))}"


def _may_continue(plan: Plan) -> str:
    """Whether the window of an entry is open, and the unit is not excluded.

    Where time alone decides, only the entry that counts is folded, so this looks at all entries of
    the visitor, or of the span.
    """
    folds_all = not (is_ordered_by_time(plan) or plan.definition.in_any_order) or plan.excludes
    if plan.enters_once or folds_all:
        is_eligible = "NOT progress.excluded AND " if plan.excludes else ""
        return f"{is_eligible}{plan.evaluated_at()} <= window_end"
    conditions = [starts(plan), f"{plan.evaluated_at()} <= {plan.window_end('x.ts')}"]
    if plan.spans is not None:
        conditions.append(f"{plan.span('x.ts')} = {plan.span('entry_ts')}")
    return f"arrayExists(x -> {' AND '.join(conditions)}, history)"


def _folded(plan: Plan, values: str, *, detailed: bool) -> str:
    folded = folded_units(plan, values, detailed=detailed)
    if not plan.definition.is_by_entry:
        folded = add_values(plan, folded)
    return own_events(plan, folded) if plan.repeats else folded


def _coarse_times(plan: Plan, events: str) -> str:
    """Count the coarse times among a unit's events. Source: semantics, "Data quality"."""
    if not plan.has_whole_seconds:
        return "toUInt32(0)"
    required = f"arrayFilter(x -> {plan.overlaps('x.mask', plan.required)}, {events})"
    seconds = "arrayMap(x -> intDiv(x.ts, 1000), own)"
    # Without own events, as before a step that allows nothing else, there are no neighbours either.
    neighbours = f"""arraySlice(arrayPushFront({seconds}, -1), 1, length(own)),
                   arraySlice(arrayPushBack({seconds}, -1), 2)"""
    is_one = "bitTest(x.late, 0) AND (now = previous OR now = next)"
    count = f"""arrayCount((x, now, previous, next) -> {is_one}, own, {seconds}, {neighbours})"""
    return f"toUInt32(arrayMap(own -> {count}, [{required}])[1])"


def _entry_keys(plan: Plan) -> str:
    """Return the entry values: those of the entry, without those on which tied events disagree."""
    if not plan.breadth:
        return "CAST([], 'Array(UInt64)')"
    disagree = "tied AND arrayUniq(arrayMap(x -> x.keys[j], tied_events)) > 1"
    numbers = f"range(1, {plan.breadth + 1})"
    return f"arrayMap(j -> if({disagree}, 0, first_event.keys[j]), {numbers})"


def _invalid_numbers(plan: Plan, events: str) -> str:
    if plan.definition.sequence_property is None:
        return "toUInt32(0)"
    return f"arrayCount(x -> x.invalid AND {plan.overlaps('x.mask', plan.required)}, {events})"


def _later_events(plan: Plan) -> str:
    """Return the events after the entry and inside the window that a step or an exclusion reads."""
    bits = plan.required | sum(plan.exclusions) | plan.any_event
    if plan.definition.in_any_order:  # Only conflicts are read.
        return "[]" if folds_conflicts(plan) else _events_after(plan)
    condition = f"x.ts <= window_end AND {plan.overlaps('x.mask', bits)}"
    positions = "arrayEnumerate(history)"
    if plan.definition.in_step_order:
        time = "x.late" if plan.has_whole_seconds else "x.ts"
        condition += f" AND {time} >= {entry_time(plan)} AND NOT has(served, i)"
        later = f"arrayFilter((x, i) -> {condition}, history, {positions})"
        return (
            f"arraySort(x -> (x.late, x.seq, x.event_id), {later})"
            if plan.has_whole_seconds
            else later
        )
    if not plan.has_whole_seconds:
        return f"arrayFilter(x -> {condition}, arraySlice(history, entry.at + 1))"
    entry = f"({entry_time(plan)}, first_event.seq, entry.at)"
    after = f"(x.late, x.seq, i) > {entry} AND NOT has(served, i)"
    return f"""arraySort(x -> (x.late, x.seq, x.event_id), arrayFilter(
                   (x, i) -> {condition} AND {after}, history, {positions}))"""


def _events_after(plan: Plan) -> str:
    """Return the events of steps after the entry's time and inside the window, in any order."""
    conditions = ["x.ts > entry_ts", "x.ts <= window_end"]
    if plan.has_whole_seconds:
        conditions[0] = f"x.ts != entry_ts AND x.late > {entry_time(plan)}"
    conditions.append(plan.overlaps("x.mask", plan.required))
    return f"arrayFilter(x -> {' AND '.join(conditions)}, history)"


def _add_served(plan: Plan, entries: str) -> str:
    """Add the column `served` with the positions of the events that completed or filled step 1.

    It is needed only if step 1 is a group, if events may have times in whole seconds, or in step
    order.
    """
    first = plan.steps[0]
    if first.row.all_of and plan.repeats:
        return f"SELECT *, entry.served AS served FROM ({entries})"
    if not first.row.all_of:
        if not (plan.has_whole_seconds or plan.definition.in_step_order):
            return entries
        return f"SELECT *, [entry.at] AS served FROM ({entries})"
    positions = ", ".join(
        f"entry.began - 1 + arrayFirstIndex(x -> {plan.overlaps('x.mask', bit)}, own)"
        for bit in first.each
    )
    return f"""
        SELECT *, [{positions}] AS served FROM (
            SELECT *, arraySlice(history, entry.began, entry.at - entry.began + 1) AS own
            FROM ({entries}))"""


def _unit_conflicts(plan: Plan) -> str:
    """Return a mask with a bit for each entry value that a later event contradicts.

    For visitors, only accepted events count, because visitors can enter again. For attempts, all
    events inside the window that match a required step count. Source: semantics, "Data quality".
    """
    if not plan.definition.is_by_entry:
        return "own_conflicts"
    if folds_conflicts(plan):
        return "progress.conflicts"
    if not plan.breadth:
        return "toUInt8(0)"
    events = "later"
    if any(plan.exclusions) or plan.any_event:
        events = f"arrayFilter(x -> {plan.overlaps('x.mask', plan.required)}, later)"
    return f"arrayReduce('groupBitOr', {conflicts(plan, events)})"


def _chosen_matches(plan: Plan) -> str:
    """Return the mask of the matches for which a unit's accepted events counted."""
    if plan.definition.has_options:
        return "progress.chosen"
    # Each step has one match, so the mask depends only on the number of completed steps.
    counts = range(1, len(plan.steps) + 1)
    return f"{plan.masks([sum(step.all for step in plan.steps[:k]) for k in counts])}[reached]"


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


def _run_columns(plan: Plan) -> str:
    """Select what `runs` reads of a possible run."""
    alone = "entry.alone" if plan.steps[0].row.all_of else "toUInt8(0)"
    began = "entry.began" if plan.steps[0].row.all_of else "entry.at"
    passes = "passes" if plan.has_entry_filters else "toUInt8(1)"
    return f"""{began} AS began, {alone} AS alone, {passes} AS passes,
               began_time, began_seq, end_time, end_seq, first_event.event_id AS entry_id,"""


def _diagnostic_counts(plan: Plan) -> str:
    """Count the events of each diagnostic row; 0 if the unit did not reach the row.

    The counts are followed by a flag for each diagnostic row that is a group: whether each of its
    parts has an event. Source: semantics, "Diagnostic rows".
    """
    counts, groups, step = [], [], 0
    for bits in plan.rows:
        if not bits.row.diagnostic:
            step += bits.row.required
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
        since = ms(plan, f"progress.done[{step}]")
        end = "window_end"
        if plan.excludes:
            end = f"if(progress.excluded, {ms(plan, 'progress.ended_ts')}, window_end)"
        until = f"if(reached > {step}, {ms(plan, f'progress.done[{step + 1}]')}, {end})"
    else:
        since = "" if plan.window_ms is None else f"entry_ts - {plan.window_ms}"
        until = "entry_ts"
    end = ms(plan, "x.late") if plan.has_whole_seconds else "x.ts"
    conditions = [f"{end} >= {since}"] if since else []
    conditions += [f"x.ts <= {until}", plan.overlaps("x.mask", bits.all)]
    return " AND ".join(conditions)


def _select_furthest(plan: Plan, outcome: str, columns: tuple[str, ...]) -> str:
    """Select each visitor's entry that leads furthest, overall or in each span.

    Of several such entries, the earliest counts that is not excluded, or else the earliest. Source:
    semantics, "Visitor funnels" and "Trend".
    """
    span = "" if plan.spans is None else f", {plan.span('entry_ts')}"
    rank = "excluded_after < 0, " if plan.excludes else ""
    chosen = {column: f"best.{position}" for position, column in enumerate(columns, start=1)}
    chosen["open"] = f"is_open AND {chosen['reached']} < {len(plan.steps)}"
    best = ", ".join(f"{value} AS {column}" for column, value in chosen.items())
    return f"""
        SELECT unit, {best} FROM (
            SELECT unit, max(open) AS is_open,
                   argMax(tuple({", ".join(columns)}),
                          tuple(reached, {rank}-toInt64(entry_at))) AS best
            FROM ({outcome}) GROUP BY unit{span})"""
