"""Counts the same units by several sets of rules, ours and those of another tool, and compares.

Source: docs/other-tools.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.base.scalar import Scalar
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.cohorts import key_of
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
from penstock.funnels.statements.relations import compose, with_relations
from penstock.funnels.statements.runs import NO_END

EXCLUDED = 128
"""Added to the result of a unit that was excluded after the step that it reached."""
MAX_NAMED_UNITS = 20_000
"""Maximum number of differing units whose keys `compared` returns for each of its rows."""
_NEVER = 2**62
"""The time of what never happens: later than every event and the end of every window."""


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


_OF_RUNS = (Entries.EVERY, Entries.EVERY_IN_PERIOD)


class Excluded(StrEnum):
    """How excluded units count: with their own outcome, not at all, or at their step."""

    OWN_OUTCOME = "ownOutcome"
    GONE = "gone"
    AT_STEP = "atStep"


class CohortFrom(StrEnum):
    """The event that gives the value of a unit's cohort.

    ENTRY: the entry that counts. EACH_ENTRY: each entry, so a unit may count once for each value.
    FIRST: the first event of a step in the period that has a value.
    """

    ENTRY = "entry"
    EACH_ENTRY = "eachEntry"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that count units.

    tick_ms: times are rounded down to a multiple of it. one_of_kind: whether only one of a unit's
    events counts if they have the same time and match the same rows. modes: modes of the engine's
    function `windowFunnel`, which counts then; None for a fold. greedy: the fold that counts then;
    None for ours. by_tries: whether the fold of `_by_tries` counts. is_exact: whether a step must
    be at the time of the step before, or at the next time at which the unit has any event.
    with_step_1: whether the fold of `_with_step_1` counts. excluded: how units count that an event
    excludes. edges_ms: starts of spans of time: a unit counts once for each span that it enters in;
    empty for no spans. cohort_from: how units are divided by the definition's only breakdown
    property; None to leave them together.
    """

    definition: Definition
    params: QueryParams
    tick_ms: int = 1
    one_of_kind: bool = False
    modes: tuple[str, ...] | None = None
    greedy: "Greedy | None" = None
    by_tries: bool = False
    is_exact: bool = False
    with_step_1: bool = False
    excluded: Excluded = Excluded.OWN_OUTCOME
    edges_ms: tuple[int, ...] = ()
    cohort_from: CohortFrom | None = None

    @property
    def counts_parts(self) -> bool:
        """Whether a unit may count in several parts: spans of time or cohorts."""
        return bool(self.edges_ms) or self.cohort_from is CohortFrom.EACH_ENTRY


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
    known: Mapping[int, tuple[int, int]] | None = None,
    values: Sequence[Scalar | None] = (),
) -> Statement:
    """Count units by their results here, there and by other rules that might explain there.

    A result is the number of steps that the unit reached, plus `EXCLUDED` if it was excluded; 0 if
    it did not enter. units: keys of the units to read; None for all. known: results here and there
    of all these units, which then are not counted again. values: the cohorts to count, if the rules
    divide units by a property.

    Columns: here, there (results), part (start of the span, or index of the value from 1; otherwise
    0), explained (a mask with a bit for each of `tried` that has the result of there; 0 if the
    results do not differ), units (their number) and named (keys of units whose results differ, the
    first `MAX_NAMED_UNITS`).
    """
    first = _plan(here, profile, units)
    counted = [*([here, there] if known is None else []), *tried]
    relations, results = _results(first, counted, profile, units)
    own = "results[1] AS here, results[2] AS there"
    if known is not None:
        keys = first.binder.bind("Array(UInt64)", list(known))
        results += f" UNION ALL SELECT arrayJoin({keys}), toUInt64(0), toUInt8(0), 0"
        each = (
            first.binder.bind("Array(UInt8)", list(results_of_all))
            for results_of_all in zip(*known.values(), strict=True)
        )
        own = ", ".join(
            f"transform(unit, {keys}, {of_units}, toUInt8(0)) AS {name}"
            for name, of_units in zip(("here", "there"), each, strict=True)
        )
    offset = 1 if known is not None else 3
    explains = " + ".join(
        f"{1 << at} * (results[{at + offset}] = there)" for at in range(len(tried))
    )
    part = "part"
    if here.cohort_from is not None:
        [name] = here.definition.breakdown_properties
        cohorts = ", ".join(key_of(first, name, value) for value in values)
        part = f"indexOf([{cohorts}], part)"
    by_rule = ", ".join(f"maxIf(result, position = {at})" for at in range(len(counted)))
    tail = f"""
    SELECT here, there, in_part AS part, if(here != there, {explains or "0"}, 0) AS explained,
           count() AS units,
           groupArraySortedIf({MAX_NAMED_UNITS})(unit, here != there) AS named
    FROM (SELECT unit, {part} AS in_part, results, {own}
          FROM (SELECT unit, part, [{by_rule}] AS results FROM ({results}) GROUP BY unit, part))
    GROUP BY here, there, in_part, explained"""
    return compose(first, relations, tail)


def _results(
    first: Plan, rules: Sequence[Rules], profile: DataProfile, units: Sequence[int] | None
) -> tuple[dict[str, str], str]:
    """Return relations, and a query for each unit, its part and its result by each of the rules.

    Only the relations of the first rules stand at the top of the statement, where the engine keeps
    the rows that are read several times: these are our own rules for all units. Others have their
    own, with the same names.
    """
    top: dict[str, str] = {}
    each = []
    for at, own in enumerate(rules):
        plan = _plan(own, profile, units)
        plan.binder = first.binder
        relations, counted = _counted(plan, own)
        if at == 0:
            top = relations
        else:
            counted = with_relations(relations, counted, ("chains",))
        each.append(f"SELECT unit, part, result, {at} AS position FROM ({counted})")
    return top, " UNION ALL ".join(each)


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
        edges_ms=rules.edges_ms or None,
        tick_ms=rules.tick_ms,
    )


def _counted(plan: Plan, rules: Rules) -> tuple[dict[str, str], str]:
    """Return relations, and a query for the units that the rules count.

    Columns: unit, part, result.
    """
    if rules.modes is not None:
        return _by_function(plan, rules, rules.modes)
    if rules.greedy is not None:
        return _by_greedy_fold(plan, rules, rules.greedy)
    if rules.by_tries:
        return _by_tries(plan, rules)
    if rules.with_step_1:
        return _with_step_1(plan, rules)
    strategy = Strategy.AUTO if plan.subset.units is None else Strategy.GENERAL
    relations = counted_units(plan, strategy)
    if rules.one_of_kind:
        relations["matched"] = f"SELECT * FROM ({relations['matched']}) LIMIT 1 BY unit, ts, mask"
    result = _result("reached", "excluded_after >= 0", rules.excluded)
    key = "keys[1]" if rules.cohort_from is CohortFrom.ENTRY else "0"
    part = _part(plan, rules, "entry_ts", key)
    tail = f"SELECT unit, {part} AS part, {result} AS result FROM counted"
    return relations, _with_first_values(plan, rules, relations, tail)


def _part(plan: Plan, rules: Rules, entry_ts: str, key: str) -> str:
    """Return the part in which a unit counts. key: the value's key by `ENTRY` or `EACH_ENTRY`."""
    if rules.edges_ms:
        edges = plan.binder.bind("Array(Int64)", list(rules.edges_ms))
        return f"roundDown({entry_ts}, {edges})"
    return f"toUInt64({key})"


def _with_first_values(plan: Plan, rules: Rules, relations: dict[str, str], tail: str) -> str:
    """Return the rows of `tail` with the value that `FIRST` asks for, if the rules do, as `part`.

    relations: those of `tail`, of which one is `matched`.
    """
    if rules.cohort_from is not CohortFrom.FIRST:
        return tail
    relations["first_values"] = f"""
        SELECT unit, argMinIf(key_1, (ts, event_id), key_1 != 0) AS value FROM matched
        WHERE unit != 0 AND {plan.overlaps("mask", plan.required)} AND {plan.in_period("ts")}
        GROUP BY unit"""
    return f"""
        SELECT counted.unit AS unit, first_values.value AS part, counted.result AS result
        FROM ({tail}) AS counted LEFT ANY JOIN first_values ON counted.unit = first_values.unit"""


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


def _by_function(plan: Plan, rules: Rules, modes: Sequence[str]) -> tuple[dict[str, str], str]:
    """Count with the engine's function over the events that match a row.

    Only where order is strict does it read all events, because each of them breaks the order.
    """
    relations, events = _events_of_units(plan, matching="strict_order" not in modes)
    starts, source = _entries_by_span(plan, rules, relations, events)
    conditions = [starts, *(plan.overlaps("mask", step.all) for step in plan.steps[1:])]
    window = 2**63 - 1 if plan.window_ms is None else plan.window_ms
    arguments = ", ".join([str(window), *(f"'{mode}'" for mode in modes)])
    level = f"windowFunnel({arguments})(toUInt64(ts), {', '.join(conditions)})"
    tail = f"""
        SELECT unit, part, {level} AS result
        FROM ({source}) GROUP BY unit, part HAVING result > 0"""
    return relations, tail


def _entries_by_span(
    plan: Plan, rules: Rules, relations: dict[str, str], events: str
) -> tuple[str, str]:
    """Return whether an event may enter, and the events that a tool reads of each unit and part.

    With spans, a unit's events are read again for each span that it enters in, because an entry in
    another span must not continue there.
    """
    starts = f"{plan.overlaps('mask', plan.entry_bits)} AND {plan.in_period('ts')}"
    starts += plan.may_enter()
    since = "unit != 0"
    if plan.params.start_ms is not None:
        since += f" AND ts >= {plan.binder.bind('Int64', plan.params.start_ms)}"
    if not rules.edges_ms:
        return starts, f"SELECT *, toUInt64(0) AS part FROM {events} WHERE {since}"
    span = _part(plan, rules, "ts", "0")
    relations["entered"] = f"""
        SELECT unit, {span} AS part, max(ts) AS last_ts FROM {events}
        WHERE unit != 0 AND {starts} GROUP BY unit, part"""
    source = f"""
        SELECT events.*, entered.part AS part
        FROM {events} AS events INNER JOIN entered ON events.unit = entered.unit
        WHERE {since.replace("unit", "events.unit", 1)} AND ts >= entered.part
          AND ts <= {plan.window_end("entered.last_ts")}"""
    return f"{starts} AND {span} = part", source


def _by_greedy_fold(plan: Plan, rules: Rules, greedy: Greedy) -> tuple[dict[str, str], str]:
    relations, events = _events_of_units(plan)
    follow = _by_numbers if plan.definition.sequence_property else _by_times
    n = len(plan.steps)
    ends, excludes = [], []
    for k in range(2, n + 1):
        if plan.exclusions[k - 2]:
            stops = f"stop_{k} <= window_end AND (at_{k} > window_end OR stop_{k} < at_{k})"
            ends += [stops, str(k - 1)]
            excludes += [stops, f"stop_{k}"]
        ends += [f"at_{k} > window_end", str(k - 1)]
        excludes += [f"at_{k} > window_end", "0"]
    stop = f"multiIf({', '.join(excludes)}, 0)" if plan.excludes else "0"
    folded = f"""
        SELECT unit, part, entry_ts, entry_id, {stop} AS stop_ts,
               multiIf({", ".join(ends)}, {n}) AS steps,
               {_result("steps", "stop_ts != 0", rules.excluded)} AS reached,
               multiIf(stop_ts != 0, stop_ts, steps < {n}, window_end, greatest(at_{n}, entry_ts))
                   AS end_ts
        FROM (SELECT *, least({plan.window_end("entry_ts")}, {_NEVER - 1}) AS window_end
              FROM ({follow(plan, rules, greedy, events)}))"""
    if greedy.entries is Entries.FIRST_EVER:
        folded = f"SELECT * FROM ({folded}) WHERE {plan.in_period('entry_ts')}"
    if greedy.entries in _OF_RUNS:
        return relations, _runs(plan, folded)
    rank = f"(reached % {EXCLUDED}, reached < {EXCLUDED}, -entry_ts)"
    by = "unit, part" if rules.counts_parts else "unit"
    tail = f"""
        SELECT unit, best.1 AS part, best.2 AS result
        FROM (SELECT unit, argMax((part, reached), {rank}) AS best FROM ({folded}) GROUP BY {by})"""
    return relations, _with_first_values(plan, rules, relations, tail)


def _by_times(plan: Plan, rules: Rules, greedy: Greedy, events: str) -> str:
    """Select the entries that may count, and the time of each step and exclusion after them.

    Times alone decide, so an entry need not be followed through the events of its unit: for all
    entries at once, the next event is found in two sorted lists. Columns: unit, part, entry_ts,
    entry_id, at_2 and so on (times of the steps), stop_2 and so on (times of the exclusions).
    """
    starts = _starts(plan, greedy.entries)
    entry_id = "event_id" if greedy.entries in _OF_RUNS else "''"
    key = "0" if rules.cohort_from in (None, CohortFrom.FIRST) else "key_1"
    part = _part(plan, rules, "ts", key)
    lists = [f"groupArrayIf((ts, {entry_id}, {part}), {starts}) AS sent"]
    for k, (step, exclusion) in enumerate(zip(plan.steps[1:], plan.exclusions, strict=True), 2):
        lists.append(f"arraySort(groupArrayIf(ts, {plan.overlaps('mask', step.all)})) AS step_{k}")
        if exclusion:
            excludes = plan.overlaps("mask", exclusion)
            lists.append(f"arraySort(groupArrayIf(ts, {excludes})) AS exclusion_{k}")
    folded = f"""
        SELECT * EXCEPT (sent), {_chosen(rules, greedy.entries, "arraySort(sent)")} AS entries
        FROM (SELECT unit, {", ".join(lists)} FROM {events} WHERE unit != 0 GROUP BY unit
              HAVING notEmpty(sent))"""
    shift_ms = -greedy.within_ms if greedy.within_ms is not None else 1
    if greedy.within_ms is None and plan.definition.in_step_order:
        shift_ms = 0
    columns, last = ["entries"], "entries.1"
    for k, exclusion in enumerate(plan.exclusions, 2):
        following = {f"at_{k}": _next(last, shift_ms, f"step_{k}")}
        if exclusion:
            following[f"stop_{k}"] = _next(last, 1, f"exclusion_{k}")
        more = ", ".join(f"{times} AS {name}" for name, times in following.items())
        folded = f"SELECT *, {more} FROM ({folded})"
        columns += following
        last = f"at_{k}"
    names = ", ".join(f"found.{at} AS {name}" for at, name in enumerate(columns[1:], 2))
    return f"""
        SELECT unit, found.1.1 AS entry_ts, found.1.2 AS entry_id, found.1.3 AS part, {names}
        FROM (SELECT unit, arrayJoin(arrayZip({", ".join(columns)})) AS found FROM ({folded}))"""


def _next(times: str, shift_ms: int, others: str) -> str:
    """Return for each of some times the first of others that is not earlier than it, shifted.

    Both lists are sorted, and so is the result.
    """
    marks = f"""arraySort(arrayConcat(arrayMap(t -> (t + {shift_ms}, 0), {times}),
                                      arrayMap(t -> (t, 1), {others})))"""
    nearest = "arrayReverseFill(mark -> mark.2 = 1, marks)"
    return f"""arrayMap(marks -> arrayMap(
                   mark -> if(mark.2 = 1, mark.1, {_NEVER}),
                   arrayFilter((mark, own) -> own.2 = 0, {nearest}, marks)), [{marks}])[1]"""


def _by_numbers(plan: Plan, rules: Rules, greedy: Greedy, events: str) -> str:
    """Like `_by_times`, where sequence numbers decide as well: follow one entry after the other."""
    fields = {"ts": "Int64", "seq": "UInt64", "event_id": "String", "mask": plan.mask_type}
    if plan.has_entry_filters:
        fields["passes"] = "UInt8"
    if plan.breadth:
        fields["key_1"] = "UInt64"
    event = f"Tuple({', '.join(f'{name} {kind}' for name, kind in fields.items())})"
    history = f"arraySort(groupArray(CAST(({', '.join(fields)}), '{event}')))"
    starts = _starts(plan, greedy.entries, "x.")
    key = "0" if rules.cohort_from in (None, CohortFrom.FIRST) else "x.key_1"
    part = _part(plan, rules, "x.ts", key)
    own = f"arrayMap(x -> (x, {part}, {part}), arrayFilter(x -> {starts}, history))"
    limit = f"greatest(1, intDiv({MAX_COMPARISONS}, length(history)))"
    chosen = f"arraySlice({_chosen(rules, greedy.entries, own)}, 1, {limit})"
    # Each name is defined in a separate subquery, as in the general fold.
    folded = f"""
        SELECT unit, history, entry.2 AS part, event_1, event_1.ts AS entry_ts,
               event_1.event_id AS entry_id, {plan.window_end("entry_ts")} AS until,
               if(event_1.seq = {UNUSABLE}, 0, event_1.seq + 1) AS least_1
        FROM (SELECT *, entry.1 AS event_1 FROM (
            SELECT unit, history, arrayJoin({chosen}) AS entry
            FROM (SELECT unit, {history} AS history FROM {events}
                  WHERE unit != 0 GROUP BY unit)))"""
    for k, (step, exclusion) in enumerate(zip(plan.steps[1:], plan.exclusions, strict=True), 2):
        last = f"event_{k - 1}"
        inside = f"{last}.ts != 0 AND x.ts <= until"
        follows = f"{_follows(plan, greedy.within_ms, last)} AND x.seq >= least_{k - 1}"
        does = f"{plan.overlaps('x.mask', step.all)} AND {inside} AND {follows}"
        columns = f"arrayFirst(x -> {does}, history) AS event_{k}"
        if exclusion:
            stops = f"{plan.overlaps('x.mask', exclusion)} AND {inside} AND x.ts > {last}.ts"
            columns += f", arrayFirst(x -> {stops}, history).ts AS first_stop_{k}"
        next_number = f"if(event_{k}.seq = {UNUSABLE}, least_{k - 1}, event_{k}.seq + 1)"
        folded = f"SELECT *, {next_number} AS least_{k} FROM (SELECT *, {columns} FROM ({folded}))"
    times = {f"at_{k}": f"event_{k}.ts" for k in range(2, len(plan.steps) + 1)}
    times |= {f"stop_{k}": f"first_stop_{k}" for k, each in enumerate(plan.exclusions, 2) if each}
    columns = ", ".join(f"if({at} = 0, {_NEVER}, {at}) AS {name}" for name, at in times.items())
    return f"SELECT unit, part, entry_ts, entry_id, {columns} FROM ({folded})"


def _starts(plan: Plan, entries: Entries, event: str = "") -> str:
    """Whether an event may enter. event: as in `Plan.may_enter`."""
    starts = plan.overlaps(f"{event}mask", plan.entry_bits) + plan.may_enter(event)
    if entries in (Entries.FIRST_EVER, Entries.EVERY):
        return starts
    return f"{starts} AND {plan.in_period(f'{event}ts')}"


def _chosen(rules: Rules, entries: Entries, possible: str) -> str:
    """Return those of a unit's possible entries that may count.

    possible: a sorted array of entries, whose third field is their part.
    """
    if entries not in (Entries.FIRST, Entries.FIRST_EVER):
        return possible
    if entries is Entries.FIRST_EVER or not rules.counts_parts:
        return f"arraySlice({possible}, 1, 1)"
    return f"""arrayMap(found -> arrayFilter(
                   (entry, nth) -> nth = 1, found, arrayEnumerateUniq(found.3)), [{possible}])[1]"""


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
        SELECT sipHash64(unit, run.2) AS unit, run.5 AS part, run.4 AS result
        FROM (
            SELECT unit, arrayJoin(arrayFilter((run, chosen) -> chosen, found, {chosen})) AS run
            FROM (
                SELECT unit,
                       arraySort(groupArray((entry_ts, entry_id, end_ts, reached, part))) AS found
                FROM ({folded}) GROUP BY unit))
        WHERE {plan.in_period("run.1")}"""


def _with_step_1(plan: Plan, rules: Rules) -> tuple[dict[str, str], str]:
    """Count the steps in any order that are done in one window, if step 1 is one of them.

    The window opens with an event of any step in the period. No event matches several steps.
    """
    relations, events = _events_of_units(plan)
    steps = {f"at_{k}": step.all for k, step in enumerate(plan.steps, 1)}
    starts = f"{plan.overlaps('mask', plan.required)} AND {plan.in_period('ts')}{plan.may_enter()}"
    lists = [f"groupArrayIf((ts, {_part(plan, rules, 'ts', '0')}), {starts}) AS sent"]
    lists += [
        f"arraySort(groupArrayIf(ts, {plan.overlaps('mask', bits)})) AS {name}"
        for name, bits in steps.items()
    ]
    columns = ", ".join(["opens", *(_next("opens.1", 0, name) for name in steps)])
    is_done = [f"(found.{at} <= until)" for at, _ in enumerate(steps, 2)]
    tail = f"""
        SELECT unit, found.1.2 AS part,
               toUInt8(maxIf({" + ".join(is_done)}, {is_done[0]})) AS result
        FROM (SELECT unit, found, least({plan.window_end("found.1.1")}, {_NEVER - 1}) AS until
              FROM (SELECT unit, arrayJoin(arrayZip({columns})) AS found
                    FROM (SELECT *, arraySort(sent) AS opens
                          FROM (SELECT unit, {", ".join(lists)} FROM {events}
                                WHERE unit != 0 GROUP BY unit HAVING notEmpty(sent)))))
        GROUP BY unit, part HAVING result > 0"""
    return relations, tail


def _by_tries(plan: Plan, rules: Rules) -> tuple[dict[str, str], str]:
    """Count as PostHog does with exclusions, or as Amplitude does where order is exact.

    Each step keeps the time at which its latest try entered. An exclusion marks the try that waits
    at its step, and no step follows a marked one. The unit is gone if its furthest try is marked;
    a later one that gets as far replaces it. Where different events have equal times, exclusions
    are not looked at, and the others are read in the order of the steps.
    """
    relations, events = _events_of_units(plan, matching=not rules.is_exact)
    n = len(plan.steps)
    starts, source = _entries_by_span(plan, rules, relations, events)
    reads = [f"if({starts}, [1], [])"]
    for k, (step, exclusion) in enumerate(zip(plan.steps[1:], plan.exclusions, strict=True), 2):
        reads.append(f"if({plan.overlaps('mask', step.all)}, [{k}], [])")
        if exclusion:
            reads.append(f"if({plan.overlaps('mask', exclusion)}, [-{k}], [])")
    histories = f"""
        SELECT unit, part, arraySort(groupArray(
                   (ts, CAST(arrayConcat({", ".join(reads)}), 'Array(Int16)')))) AS history
        FROM ({source}) GROUP BY unit, part"""
    together = "arraySplit((x, change) -> change != 0, history, arrayDifference(history.1))"
    alike = "arrayFlatten(arrayMap(x -> arrayReverse(x.2), run))"
    mixed = "arraySort(arrayFilter(k -> k > 0, arrayFlatten(run.2)))"
    of_run = f"if(arrayUniq(run.2) = 1, {alike}, {mixed})"
    earlier = "arrayPushFront(arrayPopBack(arrayMap(run -> run[1].1, runs)), toInt64(-1))"
    inputs = f"""
        SELECT unit, part, arrayFlatten(arrayMap(
                   (run, last) -> arrayMap(k -> (run[1].1, k, last), {of_run}),
                   runs, {earlier})) AS reads
        FROM (SELECT unit, part, {together} AS runs FROM ({histories}))"""
    before = "greatest(j - 1, 1)"
    entered, marked = f"if(j = 1, ts, s.at[{before}])", f"(j > 1 AND s.marked[{before}])"
    window = plan.window_ms if plan.window_ms is not None else 2**62
    is_next = f"""s.at[{n}] = 0 AND {entered} != 0 AND ts - {entered} <= {window}
                  AND s.at[j] != {entered}"""
    if rules.is_exact:
        is_next = f"""s.at[{n}] = 0 AND (j = 1 OR s.at[{before}] != 0)
                      AND ts - {entered} <= {window} AND (j = 1 OR s.done[{before}] >= last)"""
    changed = "arrayMap((v, i) -> if(i = {0}, {1}, v), s.{2}, arrayEnumerate(s.{2}))"
    leads = "j > s.furthest OR (j = s.furthest AND s.gone)"
    set_done = changed.format("j", "ts", "done") if rules.is_exact else "s.done"
    done = f"""tuple(
                   if({marked}, s.at, {changed.format("j", entered, "at")}),
                   if({marked}, s.marked, {changed.format("j", "0", "marked")}),
                   if({leads}, j, s.furthest), if({leads}, {marked}, s.gone),
                   if({leads}, {entered}, s.since), {set_done})"""
    excludes = f"s.furthest = j - 1 AND ts - s.since <= {window}"
    stopped = f"""tuple(s.at, {changed.format("j - 1", "1", "marked")}, s.furthest,
                        s.gone OR ({excludes}), s.since, s.done)"""
    same = "tuple(s.at, s.marked, s.furthest, s.gone, s.since, s.done)"
    advance = f"if({is_next}, if(k > 0, {done}, if({marked}, {same}, {stopped})), {same})"
    state = """Tuple(at Array(Int64), marked Array(UInt8), furthest Int16, gone UInt8, since Int64,
                     done Array(Int64))"""
    none = f"arrayWithConstant({n}, 0)"
    tail = f"""
        SELECT unit, part, toUInt8(if(tries.gone, 0, tries.furthest)) AS result FROM (
            SELECT unit, part, arrayFold((s, ts, k, last, j) -> CAST({advance}, '{state}'),
                       reads.1, reads.2, reads.3, arrayMap(k -> abs(k), reads.2),
                       CAST(({none}, {none}, 0, 0, 0, {none}), '{state}')) AS tries
            FROM ({inputs}))
        WHERE result > 0"""
    return relations, _with_first_values(plan, rules, relations, tail)
