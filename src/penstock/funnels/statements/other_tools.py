"""Counts the same units by several sets of rules, ours and those of another tool, and compares.

Source: docs/other-tools.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.counted_units import counted_units
from penstock.funnels.statements.entries import MAX_COMPARISONS
from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.providers import checked_events
from penstock.funnels.statements.query import (
    UNUSABLE,
    DataProfile,
    Plan,
    QueryParams,
    Statement,
    Strategy,
    Subset,
)
from penstock.funnels.statements.relations import with_relations
from penstock.funnels.statements.runs import NO_END

EXCLUDED = 128
"""Added to the result of a unit that was excluded after the step that it reached."""
MAX_NAMED_UNITS = 20_000
"""Maximum number of differing units whose keys `compared` returns for each of its rows."""


class Entries(StrEnum):
    """The entries that count.

    FIRST: the first in the period. FIRST_EVER: the first, if it is in the period. BEST: the one in
    the period that leads furthest. EVERY: each run that enters in the period. EVERY_IN_PERIOD: the
    same, but events before the period open no run.
    """

    FIRST = "first"
    FIRST_EVER = "firstEver"
    BEST = "best"
    EVERY = "every"
    EVERY_IN_PERIOD = "everyInPeriod"


class Excluded(StrEnum):
    """How excluded units count: with their own outcome, not at all, or at their step."""

    OWN_OUTCOME = "ownOutcome"
    GONE = "gone"
    AT_STEP = "atStep"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that count units.

    tick_ms: times are rounded down to a multiple of it. one_of_kind: whether only one of a unit's
    events counts if they have the same time and match the same rows. modes: modes of the engine's
    function `windowFunnel`, which counts then; None for a fold. greedy: the fold that counts then;
    None for ours. by_tries: whether the fold of `_by_tries` counts. excluded: how units count that
    an event excludes.
    """

    definition: Definition
    params: QueryParams
    tick_ms: int = 1
    one_of_kind: bool = False
    modes: tuple[str, ...] | None = None
    greedy: "Greedy | None" = None
    by_tries: bool = False
    excluded: Excluded = Excluded.OWN_OUTCOME


@dataclass(frozen=True, slots=True)
class Greedy:
    """A fold in which each step is done by the first event that may follow the step before.

    entries: see `Entries`. within_ms: how long before the step before the event may be; None if its
    order must be proven, or assumed as in the definition.
    """

    entries: Entries
    within_ms: int | None


def compared(
    profile: DataProfile,
    here: Rules,
    there: Rules,
    tried: Sequence[Rules],
    *,
    units: Sequence[int] | None = None,
) -> Statement:
    """Count units by their results here, there and by other rules that might explain there.

    A result is the number of steps that the unit reached, plus `EXCLUDED` if it was excluded; 0 if
    it did not enter. units: keys of the units to read; None for all.

    Columns: here, there (results), explained (a mask with a bit for each of `tried` that has the
    result of there; 0 if the results do not differ), units (their number) and named (keys of units
    whose results differ, the first `MAX_NAMED_UNITS`).
    """
    first = _plan(here, profile, units)
    results = _results(first, [here, there, *tried], profile, units)
    explains = " + ".join(f"{1 << at} * (results[{at + 3}] = there)" for at in range(len(tried)))
    sql = f"""
    SELECT here, there, if(here != there, {explains or "0"}, 0) AS explained, count() AS units,
           groupArraySortedIf({MAX_NAMED_UNITS})(unit, here != there) AS named
    FROM (SELECT unit, results, results[1] AS here, results[2] AS there FROM ({results}))
    GROUP BY here, there, explained"""
    return Statement(sql, first.binder.values)


def _results(
    first: Plan, rules: Sequence[Rules], profile: DataProfile, units: Sequence[int] | None
) -> str:
    """Select each unit and its results by all rules, in order."""
    each = []
    for at, own in enumerate(rules):
        plan = _plan(own, profile, units)
        plan.binder = first.binder
        counted = _counted(plan, own)
        each.append(f"SELECT unit, result, {at} AS position FROM ({counted})")
    results = ", ".join(f"maxIf(result, position = {at})" for at in range(len(rules)))
    return f"SELECT unit, [{results}] AS results FROM ({' UNION ALL '.join(each)}) GROUP BY unit"


def _plan(rules: Rules, profile: DataProfile, units: Sequence[int] | None) -> Plan:
    profile = replace(profile, build=None)
    if profile.first_event_ms is not None:
        profile = replace(
            profile, first_event_ms=profile.first_event_ms // rules.tick_ms * rules.tick_ms
        )
    return Plan(
        rules.definition,
        rules.params,
        profile,
        subset=Subset(units=units),
        tick_ms=rules.tick_ms,
    )


def _counted(plan: Plan, rules: Rules) -> str:
    """Select the units that the rules count. Columns: unit, result."""
    if rules.modes is not None:
        return _by_function(plan, rules.modes)
    if rules.greedy is not None:
        return _by_greedy_fold(plan, rules.greedy, rules.excluded)
    if rules.by_tries:
        return _by_tries(plan)
    strategy = Strategy.AUTO if plan.subset.units is None else Strategy.GENERAL
    relations = counted_units(plan, strategy)
    if rules.one_of_kind:
        relations["matched"] = f"SELECT * FROM ({relations['matched']}) LIMIT 1 BY unit, ts, mask"
    result = _result("reached", "excluded_after >= 0", rules.excluded)
    tail = f"SELECT unit, {result} AS result FROM counted"
    return with_relations(relations, tail, ("chains",))


def _result(reached: str, is_excluded: str, excluded: Excluded) -> str:
    return {
        Excluded.OWN_OUTCOME: f"toUInt8({reached} + {EXCLUDED} * ({is_excluded}))",
        Excluded.GONE: f"toUInt8(if({is_excluded}, 0, {reached}))",
        Excluded.AT_STEP: f"toUInt8({reached})",
    }[excluded]


def _events_of_units(plan: Plan, *, matching: bool = True) -> tuple[dict[str, str], str]:
    """Return relations, and the one with the events that may belong to a unit."""
    relations, events = {"matched": matched_events(plan, matching=matching)}, "matched"
    if plan.definition.attempt_keys and plan.profile.has_provider_events:
        relations |= checked_events(plan, events)
        events = "(SELECT * FROM checked WHERE NOT left_out)"
    return relations, events


def _by_function(plan: Plan, modes: Sequence[str]) -> str:
    """Count with the engine's function over the events that match a row.

    Only where order is strict does it read all events, because each of them breaks the order.
    """
    relations, events = _events_of_units(plan, matching="strict_order" not in modes)
    starts = f"{plan.overlaps('mask', plan.entry_bits)} AND {plan.in_period('ts')}"
    conditions = [starts + plan.may_enter()]
    conditions += [plan.overlaps("mask", step.all) for step in plan.steps[1:]]
    window = 2**63 - 1 if plan.window_ms is None else plan.window_ms
    arguments = ", ".join([str(window), *(f"'{mode}'" for mode in modes)])
    since = "1"
    if plan.params.start_ms is not None:
        since = f"ts >= {plan.binder.bind('Int64', plan.params.start_ms)}"
    tail = f"""
        SELECT unit, windowFunnel({arguments})(toUInt64(ts), {", ".join(conditions)}) AS result
        FROM {events} WHERE unit != 0 AND {since} GROUP BY unit HAVING result > 0"""
    return with_relations(relations, tail)


def _by_greedy_fold(plan: Plan, greedy: Greedy, excluded: Excluded) -> str:
    relations, events = _events_of_units(plan)
    fields = {"ts": "Int64", "seq": "UInt64", "event_id": "String", "mask": plan.mask_type}
    if plan.has_entry_filters:
        fields["passes"] = "UInt8"
    event = f"Tuple({', '.join(f'{name} {kind}' for name, kind in fields.items())})"
    relations["histories"] = f"""
        SELECT unit, arraySort(groupArray(CAST(({", ".join(fields)}), '{event}'))) AS history
        FROM {events} WHERE unit != 0 GROUP BY unit"""
    # Each name is defined in a separate subquery, as in the general fold.
    folded = f"""
        SELECT unit, history, {_entry(plan, greedy.entries)} AS event_1,
               event_1.ts AS entry_ts, {plan.window_end("entry_ts")} AS window_end,
               if(event_1.seq = {UNUSABLE}, 0, event_1.seq + 1) AS least_1
        FROM histories"""
    for k, step in enumerate(plan.steps[1:], start=2):
        conditions = [
            f"event_{k - 1}.ts != 0",
            plan.overlaps("x.mask", step.all),
            "x.ts <= window_end",
            _follows(plan, greedy.within_ms, f"event_{k - 1}"),
            f"x.seq >= least_{k - 1}",
        ]
        next_number = f"if(event_{k}.seq = {UNUSABLE}, least_{k - 1}, event_{k}.seq + 1)"
        first = f"arrayFirst(x -> {' AND '.join(conditions)}, history)"
        folded = f"SELECT *, {first} AS event_{k}, toInt64(0) AS stop_{k} FROM ({folded})"
        if exclusion := plan.exclusions[k - 2]:
            conditions[1] = plan.overlaps("x.mask", exclusion)
            conditions[3] = f"x.ts > event_{k - 1}.ts"
            stop = f"arrayFirst(x -> {' AND '.join(conditions[:4])}, history)"
            is_stop = "stop.ts != 0 AND (next.ts = 0 OR stop.ts < next.ts)"
            folded = f"""
        SELECT * EXCEPT (next, stop), if({is_stop}, stop.ts, 0) AS stop_{k},
               if({is_stop}, CAST((0, 0, '', 0{", 0" * plan.has_entry_filters}), '{event}'),
                  next) AS event_{k}
        FROM (SELECT * EXCEPT (event_{k}, stop_{k}), event_{k} AS next, {stop} AS stop
              FROM ({folded}))"""
        folded = f"SELECT *, {next_number} AS least_{k} FROM ({folded})"
    n = len(plan.steps)
    reached = " + ".join(f"(event_{k}.ts != 0)" for k in range(1, n + 1))
    stops = " + ".join(f"stop_{k}" for k in range(2, n + 1))
    folded = f"""
        SELECT unit, entry_ts, event_1.event_id AS entry_id, {stops} AS stop_ts,
               {_result(reached, "stop_ts != 0", excluded)} AS reached,
               multiIf(stop_ts != 0, stop_ts, event_{n}.ts = 0, window_end,
                       greatest(event_{n}.ts, entry_ts)) AS end_ts
        FROM ({folded}) WHERE entry_ts != 0"""
    if greedy.entries is Entries.FIRST_EVER:
        folded = f"SELECT * FROM ({folded}) WHERE {plan.in_period('entry_ts')}"
    if greedy.entries in (Entries.EVERY, Entries.EVERY_IN_PERIOD):
        return with_relations(relations, _runs(plan, folded))
    furthest = f"argMax(reached, (reached % {EXCLUDED}, reached < {EXCLUDED}))"
    tail = f"SELECT unit, {furthest} AS result FROM ({folded}) GROUP BY unit"
    return with_relations(relations, tail)


def _entry(plan: Plan, entries: Entries) -> str:
    """Return the event that enters a unit, or a row for each of several; one at 0 for none."""
    starts = plan.overlaps("x.mask", plan.entry_bits) + plan.may_enter("x.")
    if entries not in (Entries.FIRST_EVER, Entries.EVERY):
        starts += f" AND {plan.in_period('x.ts')}"
    if entries in (Entries.FIRST, Entries.FIRST_EVER):
        return f"arrayFirst(x -> {starts}, history)"
    limit = f"greatest(1, intDiv({MAX_COMPARISONS}, length(history)))"
    return f"arrayJoin(arraySlice(arrayFilter(x -> {starts}, history), 1, {limit}))"


def _follows(plan: Plan, within_ms: int | None, last: str) -> str:
    """Whether `x` may follow the event of the step before."""
    if within_ms is not None:
        return f"x.ts >= {last}.ts - {within_ms}"
    are_numbered = f"x.seq != {UNUSABLE} AND {last}.seq != {UNUSABLE}"
    follows = f"{are_numbered} AND x.seq > {last}.seq"
    if plan.definition.in_step_order:
        follows = f"NOT ({are_numbered}) OR x.seq > {last}.seq"
    return f"(x.ts > {last}.ts OR (x.ts = {last}.ts AND ({follows})))"


def _runs(plan: Plan, folded: str) -> str:
    """Select the runs among possible runs: each begins after the end of the one before."""
    state = "Tuple(end Int64, chosen Array(UInt8))"
    opens = "ts > s.end"
    step = f"tuple(if({opens}, end, s.end), arrayPushBack(s.chosen, {opens}))"
    chosen = f"""arrayFold((s, ts, end) -> CAST({step}, '{state}'), found.1, found.3,
                       CAST(({NO_END}, []), '{state}')).chosen"""
    return f"""
        SELECT sipHash64(unit, run.2) AS unit, run.4 AS result
        FROM (
            SELECT unit, arrayJoin(arrayFilter((run, chosen) -> chosen, found, {chosen})) AS run
            FROM (
                SELECT unit,
                       arraySort(groupArray((entry_ts, entry_id, end_ts, reached))) AS found
                FROM ({folded}) GROUP BY unit))
        WHERE {plan.in_period("run.1")}"""


def _by_tries(plan: Plan) -> str:
    """Count as PostHog does, with exclusions.

    Each step keeps the time at which its latest try entered. An exclusion marks the try that waits
    at its step, and no step follows a marked one. The unit is gone if its furthest try is marked;
    a later one that gets as far replaces it. Where different events have equal times, exclusions
    are not looked at, and the others are read in the order of the steps.
    """
    relations, events = _events_of_units(plan)
    n = len(plan.steps)
    since = plan.in_period("ts") + plan.may_enter()
    reads = [f"if({plan.overlaps('mask', plan.entry_bits)} AND {since}, [1], [])"]
    for k, (step, exclusion) in enumerate(zip(plan.steps[1:], plan.exclusions, strict=True), 2):
        reads.append(f"if({plan.overlaps('mask', step.all)}, [{k}], [])")
        if exclusion:
            reads.append(f"if({plan.overlaps('mask', exclusion)}, [-{k}], [])")
    is_read = "1"
    if plan.params.start_ms is not None:
        is_read = f"ts >= {plan.binder.bind('Int64', plan.params.start_ms)}"
    histories = f"""
        SELECT unit, arraySort(groupArray(
                   (ts, CAST(arrayConcat({", ".join(reads)}), 'Array(Int16)')))) AS history
        FROM {events} WHERE unit != 0 AND {is_read} GROUP BY unit"""
    together = "arraySplit((x, change) -> change != 0, history, arrayDifference(history.1))"
    alike = "arrayFlatten(arrayMap(x -> arrayReverse(x.2), run))"
    mixed = "arraySort(arrayFilter(k -> k > 0, arrayFlatten(run.2)))"
    of_run = f"if(arrayUniq(run.2) = 1, {alike}, {mixed})"
    inputs = f"""
        SELECT unit, arrayFlatten(arrayMap(run -> arrayMap(k -> (run[1].1, k), {of_run}),
                                           {together})) AS reads
        FROM ({histories})"""
    before = "greatest(j - 1, 1)"
    entered, marked = f"if(j = 1, ts, s.at[{before}])", f"(j > 1 AND s.marked[{before}])"
    window = plan.window_ms if plan.window_ms is not None else 2**62
    is_next = f"""s.at[{n}] = 0 AND {entered} != 0 AND ts - {entered} <= {window}
                  AND s.at[j] != {entered}"""
    changed = "arrayMap((v, i) -> if(i = {0}, {1}, v), s.{2}, arrayEnumerate(s.{2}))"
    leads = "j > s.furthest OR (j = s.furthest AND s.gone)"
    done = f"""tuple(
                   if({marked}, s.at, {changed.format("j", entered, "at")}),
                   if({marked}, s.marked, {changed.format("j", "0", "marked")}),
                   if({leads}, j, s.furthest), if({leads}, {marked}, s.gone),
                   if({leads}, {entered}, s.since))"""
    excludes = f"s.furthest = j - 1 AND ts - s.since <= {window}"
    stopped = f"""tuple(s.at, {changed.format("j - 1", "1", "marked")}, s.furthest,
                        s.gone OR ({excludes}), s.since)"""
    same = "tuple(s.at, s.marked, s.furthest, s.gone, s.since)"
    advance = f"if({is_next}, if(k > 0, {done}, if({marked}, {same}, {stopped})), {same})"
    state = "Tuple(at Array(Int64), marked Array(UInt8), furthest Int16, gone UInt8, since Int64)"
    none = f"arrayWithConstant({n}, 0)"
    tail = f"""
        SELECT unit, toUInt8(if(tries.gone, 0, tries.furthest)) AS result FROM (
            SELECT unit, arrayFold((s, ts, k, j) -> CAST({advance}, '{state}'),
                       reads.1, reads.2, arrayMap(k -> abs(k), reads.2),
                       CAST(({none}, {none}, 0, 0, 0), '{state}')) AS tries
            FROM ({inputs}))
        WHERE result > 0"""
    return with_relations(relations, tail)
