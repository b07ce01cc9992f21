"""The whole statement of a funnel report: units folded, grouped by cohort, totals and one page, with typed values."""

from collections.abc import Collection, Mapping

from penstock.base.scalar import COMPOSITE, Scalar, tagged, value_hash
from penstock.funnels.definitions.builtins import BUILTIN_COLUMNS
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.fold import general_units
from penstock.funnels.statements.matching import match_condition, property_hash, property_text, text_hash
from penstock.funnels.statements.packed import PLAIN, UNITLESS, combined, layout_of, tallies, unit_chains
from penstock.funnels.statements.query import (
    Facts,
    Plan,
    Question,
    Sort,
    Statement,
    Strategy,
    event_scope,
    event_source,
    matched_events,
    name_scope,
    period_scope,
    unit_key,
    visitor_key,
)

# What is counted of a cohort; every relation between the fold and the answer has these columns.
_FILTERED_LISTS = ("counts", "pendings", "options", "seen_units", "seen_events")  # follow the question's cohort filter
_FILTERED_NUMBERS = ("entered",)
_QUALITY_LISTS = ("missing", "conflicting")  # cover all entry cohorts
_QUALITY_NUMBERS = ("skips", "ties", "invalid", "tied", "several", "disordered", "unitless", "unverified")

_WORTH_PACKING = 200_000

# Relations that more than one other reads; the engine keeps their rows instead of computing them again.
_KEPT = ("tallies", "entry_values")


def build(definition: Definition, question: Question, facts: Facts, strategy: Strategy = Strategy.AUTO) -> Statement:
    """One statement that answers a question. Columns of its rows: see `penstock.funnels.results.evaluation`."""
    plan = Plan(definition, question, facts)
    return _answer(plan, _relations(plan, strategy))


def build_export(definition: Definition, question: Question, facts: Facts, strategy: Strategy = Strategy.AUTO) -> Statement:
    """The total first, then every cohort in the order of the report. No rows when nobody entered and there is no event without a unit.

    Columns: is_total, texts (tagged entry values), counts, pendings, median_ms.
    """
    plan = Plan(definition, question, facts)
    tail = "SELECT is_total, texts, counts, pendings, median_ms FROM ranked ORDER BY is_total DESC, place"
    return composed(plan, _relations(plan, strategy), tail, kept=_KEPT)


def _relations(plan: Plan, strategy: Strategy) -> dict[str, str]:
    """The relations of a report by name, each after those that it reads; the last is `ranked`."""
    facts = plan.facts
    layout = layout_of(plan) if packs(strategy, facts) else None
    relations = {"matched": matched_events(plan)}
    to_fold = "matched"
    if layout:
        relations["chains"] = unit_chains(plan, layout)
        relations["tallies"] = tallies(plan, layout)
        relations["odd"] = "SELECT * FROM matched WHERE unit IN (SELECT arrayJoin(units) FROM tallies)"
        to_fold = "odd"
    relations |= folded_units(plan, to_fold)
    relations["folded"] = _folded_cohorts(plan)
    if plan.breadth:
        relations["entry_values"] = entry_values(plan)
    parts = ["folded"]
    if layout:
        relations["plain"] = _plain_cohorts(plan)
        parts.append("plain")
    elif plan.by_attempt:
        relations["unitless"] = _left_out(plan, "unitless", "matched WHERE unit = 0")
        parts.append("unitless")
    if "judged" in relations:
        relations["unverified"] = _left_out(plan, "unverified", "judged WHERE left_out AND unit != 0")
        parts.append("unverified")
    relations["cohorts"] = _cohorts(plan, parts)
    relations["grouped"] = _grouped()
    relations["ranked"] = _ranked(plan)
    return relations


def folded_units(plan: Plan, matched: str, *, detailed: bool = False) -> dict[str, str]:
    """The relation `units` of the general fold over some matched events, with what it needs to leave out provider events (R18)."""
    relations = {}
    if plan.by_attempt and plan.facts.has_provider_events:
        relations["witnesses"] = _witnesses(plan, matched)
        relations["judged"] = _judged(matched)
        matched = "(SELECT * FROM judged WHERE NOT left_out)"
    return {**relations, "units": general_units(plan, matched, detailed=detailed)}


def packs(strategy: Strategy, facts: Facts) -> bool:
    """Few events are folded sooner than the longer statement is analysed."""
    return strategy is Strategy.PACKED or (strategy is Strategy.AUTO and facts.events >= _WORTH_PACKING)


def _answer(plan: Plan, relations: dict[str, str]) -> Statement:
    first = plan.binder.bind("UInt64", plan.question.page.offset + 1)
    last = plan.binder.bind("UInt64", plan.question.page.offset + plan.question.page.size)
    tail = f"SELECT * FROM ranked WHERE is_total OR place BETWEEN {first} AND {last} ORDER BY is_total DESC, place"
    return composed(plan, relations, tail, kept=_KEPT)


def composed(plan: Plan, relations: Mapping[str, str], tail: str, kept: Collection[str]) -> Statement:
    """A statement over named relations. kept: those that more than one other reads; the engine keeps their rows."""
    named = ",\n".join(f"{name} AS {'MATERIALIZED ' if name in kept else ''}({sql})" for name, sql in relations.items())
    return Statement(f"WITH {named}\n{tail}", plan.binder.values)


def _witnesses(plan: Plan, matched: str) -> str:
    """The visitors of all other events of the attempts that a payment provider sent events for. Source: semantics, "Units"."""
    return f"""
    SELECT {unit_key(plan)} AS unit, groupUniqArray({visitor_key(plan)}) AS visitors
    FROM {event_source(plan)}
    WHERE {event_scope(plan)} AND events.source != 'provider' AND unit IN (SELECT unit FROM {matched} WHERE provider AND unit != 0)
    GROUP BY unit"""


def _judged(matched: str) -> str:
    """Matched events, each with whether it is a provider's event without a proven link to the attempt's visitor."""
    return f"""
    SELECT {matched}.*, provider AND NOT (verified AND has(witnesses.visitors, visitor)) AS left_out
    FROM {matched} LEFT ANY JOIN witnesses ON {matched}.unit = witnesses.unit"""


def _folded_cohorts(plan: Plan) -> str:
    """One row a cohort of the units that the general fold counted."""
    n, breadth = len(plan.steps), plan.breadth
    waiting = f"{plan.evaluated_at()} <= {plan.window_end('entry_ts')}"
    bits = ", ".join(plan.mask(bit) for step in plan.steps for bit in step.each)
    return f"""
    SELECT keys, count() AS entered,
           sumForEach(arrayMap(k -> reached >= k, range(1, {n + 1}))) AS counts,
           sumForEach(arrayMap(k -> reached = k AND {waiting}, range(1, {n}))) AS pendings,
           sumForEach(arrayMap(bit -> bitAnd(chosen, bit) != 0, [{bits}])) AS options,
           quantileExactInclusiveStateIf(0.5)(done_ts - entry_ts, reached = {n}) AS completion,
           sumForEach(arrayMap(c -> c > 0, seen)) AS seen_units, sumForEach(seen) AS seen_events,
           sumForEach(arrayMap(key -> key = 0, keys)) AS missing,
           sumForEach(arrayMap(j -> bitTest(conflicts, j), range({breadth}))) AS conflicting,
           sum(skips) AS skips, sum(ties) AS ties, sum(invalid) AS invalid, sum(tied) AS tied, sum(several) AS several,
           countIf(skips + ties + invalid > 0) AS disordered, 0 AS unitless, 0 AS unverified
    FROM units GROUP BY keys"""


def _list(items: str) -> str:
    return f"CAST([{items}], 'Array(UInt64)')"


def _zeros(length: int) -> str:
    return _list(", ".join("0" for _ in range(length)))


def entry_values(plan: Plan) -> str:
    """Every combination of values that an event of step 1 in the period carries: combined hash, hashes and tagged texts."""
    places = range(1, plan.breadth + 1)
    names = dict(zip(places, plan.definition.breakdown_properties, strict=True))
    read = ", ".join(
        f"{property_hash(name, plan.binder)} AS key_{j}, {property_text(name, plan.binder)} AS text_{j}" for j, name in names.items()
    )
    known = ", ".join(f"any(key_{j}) AS key_{j}, any(text_{j}) AS text_{j}" for j in places)
    keys, texts = ([f"{column}_{j}" for j in places] for column in ("key", "text"))
    starts = " OR ".join(match_condition(match, plan.binder) for match in plan.steps[0].row.matches)
    return f"""
    SELECT value, [{", ".join(keys)}] AS keys, arrayMap(text -> if(text = '{COMPOSITE}', '', text), [{", ".join(texts)}]) AS texts
    FROM (
        SELECT {combined(keys)} AS value, {known}
        FROM (SELECT {read} FROM events WHERE {event_scope(plan)} AND {name_scope(plan)} AND ({starts}) AND {period_scope(plan)})
        GROUP BY value)"""


def _plain_cohorts(plan: Plan) -> str:
    """The tallies of plain units, and of events without a unit, in the shape of folded cohorts."""
    keys = f"arrayResize(entry_values.keys, {plan.breadth})" if plan.breadth else _list("")
    join = "LEFT ANY JOIN entry_values ON tallies.value = entry_values.value" if plan.breadth else ""
    diagnostics = sum(row.diagnostic for row in plan.definition.rows)
    return f"""
    SELECT {keys} AS keys, entered, counts, pendings, options, completion,
           {_zeros(diagnostics)} AS seen_units, {_zeros(diagnostics)} AS seen_events,
           arrayMap(key -> if(key = 0, entered, 0), keys) AS missing, {_zeros(plan.breadth)} AS conflicting,
           0 AS skips, 0 AS ties, 0 AS invalid, 0 AS tied, several, 0 AS disordered, unitless, 0 AS unverified
    FROM tallies {join} WHERE class IN ({PLAIN}, {UNITLESS})"""


def _left_out(plan: Plan, name: str, events: str) -> str:
    """How many events of the period match a required step and could not take part, in the shape of a cohort that nobody entered.

    name: the column that counts them. events: a relation and its condition.
    """
    n, options = len(plan.steps), sum(len(step.each) for step in plan.steps)
    diagnostics = sum(row.diagnostic for row in plan.definition.rows)
    numbers = ", ".join(f"{'count()' if number == name else '0'} AS {number}" for number in _QUALITY_NUMBERS)
    return f"""
    SELECT {_zeros(plan.breadth)} AS keys, 0 AS entered, {_zeros(n)} AS counts, {_zeros(n - 1)} AS pendings, {_zeros(options)} AS options,
           quantileExactInclusiveStateIf(0.5)(ts, 0) AS completion,
           {_zeros(diagnostics)} AS seen_units, {_zeros(diagnostics)} AS seen_events,
           {_zeros(plan.breadth)} AS missing, {_zeros(plan.breadth)} AS conflicting, {numbers}
    FROM {events} AND {plan.overlaps("mask", plan.required)} AND {plan.in_period("ts")}"""


def _cohorts(plan: Plan, parts: list[str]) -> str:
    """One row a cohort. Units of one cohort may come from both folds."""
    shape = ", ".join((*_FILTERED_NUMBERS, *_FILTERED_LISTS, *_QUALITY_LISTS, *_QUALITY_NUMBERS))
    rows = " UNION ALL ".join(f"SELECT keys, completion, {shape} FROM {part}" for part in parts)
    lists = ", ".join(f"sumForEach({name}) AS {name}" for name in (*_FILTERED_LISTS, *_QUALITY_LISTS))
    numbers = ", ".join(f"sum({name}) AS {name}" for name in (*_FILTERED_NUMBERS, *_QUALITY_NUMBERS))
    return f"""
    SELECT keys, sum(entered) > 0 AND {wanted(plan)} AS wanted,
           quantileExactInclusiveMergeState(0.5)(completion) AS completion, {numbers}, {lists}
    FROM ({rows}) GROUP BY keys"""


def wanted(plan: Plan) -> str:
    """Whether a cohort passes the question's exact filter."""
    conditions = ["1"]
    for name, value in plan.question.cohort.items():
        place = plan.definition.breakdown_properties.index(name) + 1
        conditions.append(f"keys[{place}] = {_key_of(plan, name, value)}")
    return " AND ".join(conditions)


def _key_of(plan: Plan, name: str, value: Scalar | None) -> str:
    text = tagged(value)
    if not text:
        return "0"
    if name in BUILTIN_COLUMNS:
        return text_hash(plan.binder.bind("String", text))
    return plan.binder.bind("UInt64", value_hash(text) % 2**64)


def _grouped() -> str:
    """The cohorts and their total. The total's counts follow the cohort filter, its data quality does not."""
    lists = ", ".join(f"sumForEachIf({name}, wanted) AS {name}" for name in _FILTERED_LISTS)
    quality = ", ".join(f"sumForEach({name}) AS {name}" for name in _QUALITY_LISTS)
    numbers = ", ".join(f"sum({name}) AS {name}" for name in _QUALITY_NUMBERS)
    return f"""
    SELECT keys, grouping(keys) = 1 AS is_total, sum(wanted) AS wanted_cohorts, sumIf(entered, wanted) AS entered, {lists},
           sum(arraySum(pendings)) AS open_windows, quantileExactInclusiveMergeIf(0.5)(completion, wanted) AS median_ms,
           {quality}, {numbers}
    FROM cohorts GROUP BY GROUPING SETS ((keys), ())"""


def _ranked(plan: Plan) -> str:
    """Cohorts in the order of the question, then the most entered first, then by value, missing ones last."""
    if not plan.breadth:
        return f"SELECT *, {_list('')}::Array(String) AS texts, 1 AS place FROM grouped WHERE is_total"
    order = ", ".join([*_sorting(plan), *(f"texts[{j}] = '', texts[{j}]" for j in range(1, plan.breadth + 1))])
    return f"""
    SELECT grouped.*, arrayResize(known.texts, {plan.breadth}) AS texts,
           row_number() OVER (PARTITION BY is_total ORDER BY {order}) AS place
    FROM grouped LEFT ANY JOIN ({known_texts(plan)}) AS known ON grouped.keys = known.keys
    WHERE is_total OR wanted_cohorts > 0"""


_SORTS: Mapping[Sort, str] = {
    Sort.ENTERED: "entered",
    Sort.COMPLETED: "counts[-1]",
    Sort.PENDING: "arraySum(pendings)",
    Sort.DROPPED_OFF: "entered - counts[-1] - arraySum(pendings)",
    Sort.CONVERSION_RATE: "counts[-1] / entered",
    Sort.MEDIAN_COMPLETION_MINUTES: "if(counts[-1] = 0, NULL, median_ms)",
}


def _sorting(plan: Plan) -> list[str]:
    direction = "DESC" if plan.question.descending else "ASC"
    return [f"{_SORTS[plan.question.sort]} {direction} NULLS LAST", "entered DESC"]


def known_texts(plan: Plan) -> str:
    """The texts of every possible cohort: of each combination of entry values, and of its parts, for tied entries agree on some only."""
    places = f"range({plan.breadth})"
    part = f"""tuple(arrayMap((key, j) -> if(bitTest(kept, j), key, 0), keys, {places}) AS part_keys,
                     arrayMap((text, j) -> if(bitTest(kept, j), text, ''), texts, {places}) AS part_texts)"""
    return f"""
        SELECT part.part_keys AS keys, any(part.part_texts) AS texts FROM (
            SELECT arrayJoin(arrayMap(kept -> {part}, range({2**plan.breadth}))) AS part FROM entry_values)
        GROUP BY keys"""
