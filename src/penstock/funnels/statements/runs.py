"""Every run of a visitor: each entry after the end of the last run opens the next run.

The general fold follows each possible entry. `runs` then chooses the runs among them, from the
first entry on. Where step 1 is a group, the events that may fill it depend on the end of the last
run. So there is a possible entry for each event that may be the first of them.
Source: semantics, "Units".
"""

from penstock.funnels.statements.query import UNUSABLE, Plan
from penstock.funnels.statements.times import entry_time, ms

RUN_COLUMNS = (
    "visitor",  # the visitor's key; `unit` is the key of the run
    "entry_id",  # ID of the entry
)

NO_END = "toInt64(-9223372036854775807)"
_PART = "Tuple(at UInt32, ts Int64, seq UInt64)"


def group_entry_type(plan: Plan) -> str:
    """Return the type of an entry where step 1 is a group.

    began: position of the first event that may fill a part. alone: 1 if events at its time without
    a usable number may not fill a part. served: positions of the events that fill the parts.
    open_parts: parts that were unfilled just before the entry's time. at, least: see `entries`.
    """
    return (
        "Tuple(at UInt32, began UInt32, least UInt64, alone UInt8, served Array(UInt32), "
        f"open_parts {plan.mask_type})"
    )


def add_parts(plan: Plan, histories: str) -> str:
    """Add the columns `parts` and `later_parts`, with a list for each event.

    The list has the first event that can fill each part of step 1: from the event on, or among the
    events with later times.
    """
    first = plan.steps[0]
    fills = f"CAST(if(bitAnd(x.mask, bit) != 0, (i, x.ts, x.seq), (0, 0, 0)), '{_PART}')"
    nearest = (
        f"arrayReverseFill(part -> part.at != 0, "
        f"arrayMap((x, i) -> {fills}, history, arrayEnumerate(history)))"
    )
    none = f"CAST([], 'Array({_PART})')"
    push = f"arrayMap((own, part) -> arrayPushBack(own, part), s, {nearest})"
    parts = f"""arrayFold((s, bit) -> {push},
                         {plan.masks(first.each)}, arrayMap(x -> {none}, history))"""
    no_parts = f"arrayResize({none}, {len(first.each)})"
    next_times = "arrayPushBack(arrayPopFront(history.ts), -1)"
    last_of_its_time = f"arrayMap((now, next) -> now != next, history.ts, {next_times})"
    later = (
        "arrayReverseFill((own, last) -> last, "
        f"arrayPushBack(arrayPopFront(parts), {no_parts}), {last_of_its_time})"
    )
    return f"""
        SELECT *, {later} AS later_parts
        FROM (SELECT *, {parts} AS parts FROM ({histories}))"""


def group_entries(plan: Plan) -> str:
    """Return the possible entries where step 1 is a group, in the order of `began` and `alone`."""
    first = plan.steps[0]
    starts = plan.overlaps("x.mask", first.all)
    is_own = f"arrayMap(x -> {starts}, history)"
    nth = f"arrayEnumerateUniq(history.ts, {is_own})"
    arrays = f"history, arrayEnumerate(history), {nth}, parts, later_parts"
    entry = _group_entry(plan, "own", "0")
    lists = [
        f"arrayMap((x, i, nth, own, later) -> if({starts} AND nth = 1, {entry}, []), {arrays})"
    ]
    if plan.definition.sequence_property is not None:
        is_free = f"part.ts = x.ts AND part.seq = {UNUSABLE}"
        own = f"arrayMap((part, other) -> if({is_free}, other, part), own, later)"
        numbered = f"{starts} AND x.seq != {UNUSABLE}"
        entry = _group_entry(plan, own, "1")
        lists.append(f"arrayMap((x, i, nth, own, later) -> if({numbered}, {entry}, []), {arrays})")
    entries = ", ".join(f"arrayFlatten({item})" for item in lists)
    return f"arraySort(e -> (e.began, e.alone), arrayConcat({entries}))"


def _group_entry(plan: Plan, parts: str, alone: str) -> str:
    """Return a list with the entry that the events of `parts` complete; empty if one is missing."""
    none, bits = plan.mask(0), plan.masks(plan.steps[0].each)
    numbered = f"arraySort(p -> p.at, arrayFilter(p -> p.seq != {UNUSABLE}, own))"
    least = f"arrayMap(last -> if(empty(last), 0, last[-1].seq + 1), [{numbered}])[1]"
    last_ts = "arrayMax(p -> p.ts, own)"
    opened = (
        f"arrayFold((s, p, bit, last_ts) -> if(p.ts = last_ts, bitOr(s, bit), s), own, {bits}, "
        f"arrayWithConstant(length(own), {last_ts}), {none})"
    )
    entry = f"""CAST((arrayMax(p -> p.at, own), i, {least}, {alone}, arrayMap(p -> p.at, own),
                      {opened}), '{group_entry_type(plan)}')"""
    entries = f"CAST(if(arrayExists(p -> p.at = 0, own), [], [{entry}]), '{_list_type(plan)}')"
    return f"arrayMap(own -> {entries}, [{parts}])[1]"


def _list_type(plan: Plan) -> str:
    return f"Array({group_entry_type(plan)})"


def end_columns(plan: Plan) -> str:
    """Return the columns that `runs` reads of a possible run, in the units of the general fold.

    began_time, began_seq: time and number of the first event that may belong to it. end_time,
    end_seq: the end of the run; only its time for the end of its window. end_ms: the end in
    milliseconds. began_ms: the time of the first event that filled step 1.
    """
    n, is_group = len(plan.steps), plan.steps[0].row.all_of
    window_end = "2 * window_end" if plan.has_whole_seconds else "window_end"
    is_done, is_excluded = f"progress.reached = {n}", "progress.excluded" if plan.excludes else "0"
    ended_ts, ended_seq = "progress.ended_ts", "progress.ended_seq"
    if not plan.excludes:
        ended_ts = ended_seq = "0"
    end_time = f"multiIf({is_excluded}, {ended_ts}, {is_done}, progress.last_ts, {window_end})"
    end_seq = f"multiIf({is_excluded}, {ended_seq}, {is_done}, progress.last_seq, {UNUSABLE})"
    began_time, began_seq, began_ms = entry_time(plan), "first_event.seq", "entry_ts"
    if is_group:
        factor = "2 * " if plan.has_whole_seconds else ""
        began_time = f"{factor}history[entry.began].ts"
        began_seq = "history[entry.began].seq"
        began_ms = "history[arrayMin(served)].ts"
    return f"""toInt64({began_time}) AS began_time, toUInt64({began_seq}) AS began_seq,
               toInt64({end_time}) AS end_time, toUInt64({end_seq}) AS end_seq,
               {ms(plan, "end_time")} AS end_ms, {began_ms} AS began_ms"""


def own_events(plan: Plan, folded: str) -> str:
    """Add `end_columns`, and `own`: the events from the beginning of a run to its end."""
    return f"""
        SELECT *, arrayFilter(x -> x.ts BETWEEN began_ms AND end_ms, history) AS own
        FROM (SELECT *, {end_columns(plan)} FROM ({folded}))"""


def runs(plan: Plan, outcome: str, columns: tuple[str, ...]) -> str:
    """Choose each visitor's runs, and select those that the query counts.

    outcome: a relation with a row for each possible run, with `columns`, `end_columns`, `began`,
    `alone` and `passes`.
    """
    is_after = f"""(began_time > s.time OR (began_time = s.time AND began_seq != {UNUSABLE}
                        AND s.seq != {UNUSABLE} AND began_seq > s.seq))"""
    if plan.steps[0].row.all_of:
        is_after += " AND alone = (began_time = s.time)"
    state = "Tuple(time Int64, seq UInt64, chosen Array(UInt8))"
    inputs = ("alone", "began_time", "began_seq", "end_time", "end_seq")
    values = ", ".join(f"arrayMap(run -> run.{at}, found)" for at in range(2, 7))
    step = f"""CAST(if({is_after}, tuple(end_time, end_seq, arrayPushBack(s.chosen, 1)),
                            tuple(s.time, s.seq, arrayPushBack(s.chosen, 0))), '{state}')"""
    chosen = f"""arrayFold((s, {", ".join(inputs)}) -> {step}, {values},
                                 CAST(({NO_END}, {UNUSABLE}, []), '{state}')).chosen"""
    best = ", ".join(f"run.7.{at} AS {column}" for at, column in enumerate(columns, start=1))
    counts = f"{plan.in_period('entry_ts')}{' AND run.8' if plan.has_entry_filters else ''}"
    return f"""
        SELECT sipHash64(visitor, entry_id) AS unit, visitor, {best}, run.9 AS entry_id
        FROM (
            SELECT visitor, arrayJoin(arrayFilter((run, chosen) -> chosen, found, chosen)) AS run
            FROM (
                SELECT visitor, found, {chosen} AS chosen
                FROM (
                    SELECT unit AS visitor, arraySort(run -> (run.1, run.2), groupArray(tuple(
                               began, alone, {", ".join(inputs[1:])}, tuple({", ".join(columns)}),
                               passes, entry_id))) AS found
                    FROM ({outcome}) GROUP BY unit)))
        WHERE {counts}"""
