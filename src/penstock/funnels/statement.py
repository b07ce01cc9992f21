"""The whole statement of a funnel report: units folded, grouped by cohort, totals and one page, with typed values."""

from penstock.base.scalar import Scalar, tagged, value_hash
from penstock.funnels.builtins import BUILTIN_COLUMNS
from penstock.funnels.fold import general_units
from penstock.funnels.matching import match_condition, property_hash, property_text, text_hash
from penstock.funnels.model import Definition
from penstock.funnels.query import (
    Facts,
    Plan,
    Question,
    Statement,
    Strategy,
    event_scope,
    event_source,
    matched_events,
    name_scope,
    unit_key,
    visitor_key,
)

# Aggregates of a cohort; the total is made from the same columns. (name, over units, over cohorts)
_SUMS = ("skips", "ties", "invalid", "tied", "several")


def build(definition: Definition, question: Question, facts: Facts, strategy: Strategy = Strategy.AUTO) -> Statement:
    """One statement that answers a question. Columns of its rows: see `penstock.funnels.evaluation`."""
    plan = Plan(definition, question, facts)
    relations = {"matched": matched_events(plan)}
    if plan.by_attempt and facts.has_provider_events:
        relations["witnesses"] = _witnesses(plan)
        relations["judged"] = _judged()
    counted = "(SELECT * FROM judged WHERE NOT left_out)" if "judged" in relations else "matched"
    relations["units"] = general_units(plan, counted)
    relations["cohorts"] = _cohorts(plan)
    relations["grouped"] = _grouped(plan)
    if plan.breadth:
        relations["entry_values"] = _entry_values(plan)
    relations["ranked"] = _ranked(plan)
    with_clause = ",\n".join(f"{name} AS {'MATERIALIZED ' if name == 'cohorts' else ''}({sql})" for name, sql in relations.items())
    first = plan.binder.bind("UInt64", question.page.offset + 1)
    last = plan.binder.bind("UInt64", question.page.offset + question.page.size)
    sql = f"""WITH {with_clause}
SELECT *, {_events_left_out(plan, "judged" in relations)} FROM ranked WHERE is_total OR place BETWEEN {first} AND {last} ORDER BY is_total DESC, place"""
    return Statement(sql, plan.binder.values)


def _witnesses(plan: Plan) -> str:
    """The visitors of all other events of the attempts that a payment provider sent events for. Source: semantics, "Units"."""
    return f"""
    SELECT {unit_key(plan)} AS unit, groupUniqArray({visitor_key(plan)}) AS visitors
    FROM {event_source(plan)}
    WHERE {event_scope(plan)} AND events.source != 'provider' AND unit IN (SELECT unit FROM matched WHERE provider AND unit != 0)
    GROUP BY unit"""


def _judged() -> str:
    """Matched events, each with whether it is a provider's event without a proven link to the attempt's visitor."""
    return """
    SELECT matched.*, provider AND NOT (verified AND has(witnesses.visitors, visitor)) AS left_out
    FROM matched LEFT ANY JOIN witnesses ON matched.unit = witnesses.unit"""


def _cohorts(plan: Plan) -> str:
    """One row a cohort, with everything that the report counts."""
    n = len(plan.steps)
    counts = ", ".join(f"countIf(reached >= {k})" for k in range(1, n + 1))
    waiting = f"{plan.evaluated_at()} <= {plan.window_end('entry_ts')}"
    pendings = ", ".join(f"countIf(reached = {k} AND {waiting})" for k in range(1, n))
    chosen = ", ".join(f"countIf({plan.overlaps('chosen', bit)})" for step in plan.steps for bit in step.each)
    missing = ", ".join(f"countIf(keys[{j}] = 0)" for j in range(1, plan.breadth + 1))
    conflicting = ", ".join(f"countIf(bitTest(conflicts, {j}))" for j in range(plan.breadth))
    sums = ", ".join(f"sum({name}) AS total_{name}" for name in _SUMS)
    return f"""
    SELECT keys, {_wanted(plan)} AS wanted, count() AS entered, any(entry_ts) AS sample_ts,
           [{counts}] AS counts, [{pendings}] AS pendings, [{chosen}] AS options,
           quantileExactInclusiveStateIf(0.5)(done_ts - entry_ts, reached = {n}) AS completion,
           sumForEach(arrayMap(c -> c > 0, seen)) AS seen_units, sumForEach(seen) AS seen_events,
           {sums}, countIf(skips + ties + invalid > 0) AS disordered,
           CAST([{missing}], 'Array(UInt64)') AS missing, CAST([{conflicting}], 'Array(UInt64)') AS conflicting
    FROM units GROUP BY keys"""


def _wanted(plan: Plan) -> str:
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


def _grouped(plan: Plan) -> str:
    """The cohorts and their total. The total's counts follow the cohort filter, its data quality does not."""
    sums = ", ".join(f"sum(total_{name}) AS {name}" for name in _SUMS)
    return f"""
    SELECT keys, grouping(keys) = 1 AS is_total, sum(wanted) AS wanted_cohorts, sumIf(entered, wanted) AS entered,
           sumForEachIf(counts, wanted) AS counts, sumForEachIf(pendings, wanted) AS pendings, sumForEachIf(options, wanted) AS options,
           sum(arraySum(pendings)) AS open_windows,
           arrayElement([quantileExactInclusiveMergeIf(0.5)(completion, wanted)], 1) AS median_ms,
           sumForEachIf(seen_units, wanted) AS seen_units, sumForEachIf(seen_events, wanted) AS seen_events,
           {sums}, sum(disordered) AS disordered, sumForEach(missing) AS missing, sumForEach(conflicting) AS conflicting
    FROM cohorts GROUP BY GROUPING SETS ((keys), ())"""


def _entry_values(plan: Plan) -> str:
    """Hash and tagged text of every entry value, read from one entry of each cohort: the sort order of events finds it by its time."""
    names = plan.definition.breakdown_properties
    pairs = ", ".join(f"({property_hash(name, plan.binder)}, {property_text(name, plan.binder)})" for name in names)
    starts = " OR ".join(match_condition(match, plan.binder) for match in plan.steps[0].row.matches)
    times = "SELECT fromUnixTimestamp64Milli(sample_ts) FROM cohorts"
    return f"""
    SELECT arrayJoin([{pairs}]) AS pair, pair.1 AS key, pair.2 AS text
    FROM events WHERE {event_scope(plan)} AND {name_scope(plan)} AND events.occurred_at IN ({times}) AND ({starts}) AND key != 0
    GROUP BY pair"""


def _ranked(plan: Plan) -> str:
    """Cohorts in the order of the report: the most entered first, then by value, missing ones last."""
    places = range(1, plan.breadth + 1)
    texts = ", ".join(f"value_{j}.text" for j in places)
    joins = "\n".join(f"    LEFT ANY JOIN entry_values AS value_{j} ON value_{j}.key = grouped.keys[{j}]" for j in places)
    order = ", ".join(["entered DESC", *(f"value_{j}.text = '', value_{j}.text" for j in places)])
    return f"""
    SELECT grouped.*, CAST([{texts}], 'Array(String)') AS texts, row_number() OVER (PARTITION BY is_total ORDER BY {order}) AS place
    FROM grouped
{joins}
    WHERE is_total OR wanted_cohorts > 0"""


def _events_left_out(plan: Plan, judged: bool) -> str:
    """Events of the period that could not take part: (without an attempt ID, a provider's without a proven link)."""
    if not plan.by_attempt:
        return "0 AS without_unit, 0 AS unverified"
    inside = f"{plan.overlaps('mask', plan.required)} AND {plan.in_period('ts')}"
    without = f"(SELECT count() FROM matched WHERE unit = 0 AND {inside}) AS without_unit"
    if not judged:
        return f"{without}, 0 AS unverified"
    return f"{without}, (SELECT count() FROM judged WHERE left_out AND unit != 0 AND {inside}) AS unverified"
