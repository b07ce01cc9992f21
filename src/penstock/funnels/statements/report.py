"""The statement of a funnel report: units grouped by cohort, the total, and one page of cohorts.

docs/development/statement.md shows a whole statement.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.base.scalar import COMPOSITE, Scalar, tagged, value_hash
from penstock.funnels.definitions.builtins import BUILTIN_FIELDS
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements import figures
from penstock.funnels.statements.events import (
    event_scope,
    event_source,
    event_source_with_touches,
    matched_events,
    name_scope,
    period_scope,
    unit_key,
    visitor_key,
)
from penstock.funnels.statements.fold import general_units
from penstock.funnels.statements.matching import (
    match_condition,
    property_hash,
    property_text,
    text_hash,
)
from penstock.funnels.statements.packed import (
    SIMPLE,
    UNITLESS,
    combined,
    layout_of,
    tallies,
    unit_chains,
)
from penstock.funnels.statements.query import (
    DataProfile,
    Plan,
    QueryParams,
    Sort,
    Statement,
    Strategy,
)
from penstock.funnels.statements.stored import stored_unitless, stored_units, stored_values

_WORTH_PACKING = 200_000

_FEW_EVENTS = 500_000
"""Up to so many, analysing a statement takes longer than running it."""
_SETTINGS_FOR_FEW_EVENTS = {
    # Takes a sixth of the analysis; over many events it saves a twentieth of the run.
    "query_plan_merge_expressions": 0,
}

_MANY_EVENTS = 5_000_000
"""From so many on, the packed fold runs so long that preparing it for speed is worth it."""
_SETTINGS_FOR_MANY_EVENTS = {
    # Compiling its groupings takes 0.1 s when the first funnel with so many steps is counted.
    "min_count_to_compile_aggregate_expression": 0,
    # Four times the engine's default: fewer blocks to group, in little more memory.
    "max_block_size": 262_144,
}

MATERIALIZED = ("tallies", "entry_values")
"""Relations with more than one reader. The engine keeps their rows instead of computing them again.
"""


def build(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    strategy: Strategy = Strategy.AUTO,
) -> Statement:
    """The statement of a report. `penstock.funnels.results.shaping` reads its columns."""
    plan = Plan(definition, params, profile)
    return _answer(plan, report_relations(plan, strategy))


def build_export(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    strategy: Strategy = Strategy.AUTO,
) -> Statement:
    """The total first, then every cohort in the order of the report.

    Columns as of `build`. No rows when nobody entered and no event lacks a unit.
    """
    plan = Plan(definition, params, profile)
    relations = report_relations(plan, strategy)
    tail = "SELECT * FROM ranked ORDER BY is_total DESC, place"
    return composed(plan, relations, tail, materialized=MATERIALIZED)


def report_relations(plan: Plan, strategy: Strategy = Strategy.AUTO) -> dict[str, str]:
    """The relations of a report by name, each after those that it reads; the last is `ranked`."""
    relations, parts = _folded(plan, strategy) if plan.profile.build is None else _stored(plan)
    relations["grouped"] = _grouped(plan, parts)
    relations["ranked"] = _ranked(plan)
    return relations


def _folded(plan: Plan, strategy: Strategy) -> tuple[dict[str, str], list[str]]:
    """The relations up to those with cohorts, and the names of these: events are folded."""
    layout = layout_of(plan) if packs(strategy, plan.profile) else None
    relations = {"matched": matched_events(plan)}
    to_fold = "matched"
    if layout:
        relations["chains"] = unit_chains(plan, layout)
        relations["tallies"] = tallies(plan, layout)
        relations["complex_events"] = (
            "SELECT * FROM matched WHERE unit IN (SELECT arrayJoin(units) FROM tallies)"
        )
        to_fold = "complex_events"
    relations |= folded_units(plan, to_fold)
    relations["folded"] = _folded_cohorts(plan)
    if plan.breadth:
        relations["entry_values"] = entry_values(plan)
    parts = ["folded"]
    if layout:
        relations["simple"] = _simple_cohorts(plan)
        parts.append("simple")
    elif plan.by_attempt:
        without_unit = f"matched WHERE unit = 0 AND {_is_counted_event(plan)}"
        relations["unitless"] = _events_outside(plan, "unitless", without_unit)
        parts.append("unitless")
    if "checked" in relations:
        left_out = f"checked WHERE left_out AND unit != 0 AND {_is_counted_event(plan)}"
        relations["unverified"] = _events_outside(plan, "unverified", left_out)
        parts.append("unverified")
    return relations, parts


def _stored(plan: Plan) -> tuple[dict[str, str], list[str]]:
    """As `_folded`, from stored outcomes."""
    relations = {"units": stored_units(plan), "folded": _folded_cohorts(plan)}
    if plan.breadth:
        relations["entry_values"] = stored_values(plan)
    relations["unitless"] = _events_outside(
        plan, "unitless", stored_unitless(plan), count="sum(events)"
    )
    return relations, ["folded", "unitless"]


def folded_units(plan: Plan, matched: str, *, detailed: bool = False) -> dict[str, str]:
    """The relation `units` of the general fold, and those that leave out provider events (R18).

    matched: the relation of the events to fold.
    """
    relations = {}
    if plan.by_attempt and plan.profile.has_provider_events:
        relations["attempt_visitors"] = attempt_visitors(
            plan, f"SELECT unit FROM {matched} WHERE provider AND unit != 0"
        )
        relations["checked"] = _checked(matched)
        matched = "(SELECT * FROM checked WHERE NOT left_out)"
    return {**relations, "units": general_units(plan, matched, detailed=detailed)}


def packs(strategy: Strategy, profile: DataProfile) -> bool:
    """Whether to use the packed fold. For few events, analysing its longer statement costs more."""
    return strategy is Strategy.PACKED or (
        strategy is Strategy.AUTO and profile.events >= _WORTH_PACKING
    )


def _answer(plan: Plan, relations: dict[str, str]) -> Statement:
    first = plan.binder.bind("UInt64", plan.params.page.offset + 1)
    last = plan.binder.bind("UInt64", plan.params.page.offset + plan.params.page.size)
    tail = f"""
    SELECT * FROM ranked WHERE is_total OR place BETWEEN {first} AND {last}
    ORDER BY is_total DESC, place"""
    return composed(plan, relations, tail, materialized=MATERIALIZED)


def composed(
    plan: Plan, relations: Mapping[str, str], tail: str, materialized: Collection[str]
) -> Statement:
    """A statement over named relations.

    materialized: those with more than one reader; the engine keeps their rows. The packed fold
    reads `matched` twice: keeping few events is quicker than reading them again, keeping many is
    not.
    """
    events, is_packed = plan.profile.events, "chains" in relations
    if events <= _FEW_EVENTS and is_packed:
        materialized = {*materialized, "matched"}
    named = ",\n".join(
        f"{name} AS {'MATERIALIZED ' if name in materialized else ''}({sql})"
        for name, sql in relations.items()
    )
    settings: Mapping[str, Any] = {}
    if events <= _FEW_EVENTS:
        settings = _SETTINGS_FOR_FEW_EVENTS
    elif events >= _MANY_EVENTS and is_packed:
        settings = _SETTINGS_FOR_MANY_EVENTS
    return Statement(f"WITH {named}\n{tail}", plan.binder.values, settings)


TAKES_PART = "(NOT provider OR verified AND (empty(visitors) OR has(visitors, visitor)))"
"""Whether an event takes part in its attempt. visitors: of `attempt_visitors`.

Source: semantics, "Units".
"""


def attempt_visitors(plan: Plan, attempts: str) -> str:
    """The visitors of the non-provider events of attempts. Columns: unit, visitors.

    attempts: a query for their units. An attempt of provider events alone has no row.
    """
    return f"""
    SELECT {unit_key(plan)} AS unit, groupUniqArray({visitor_key(plan)}) AS visitors
    FROM {event_source(plan)}
    WHERE {event_scope(plan)} AND events.source != 'provider' AND unit IN ({attempts})
    GROUP BY unit"""


def _checked(matched: str) -> str:
    """Matched events, and whether each is a provider's event that takes no part in its attempt."""
    return f"""
    SELECT {matched}.*, NOT {TAKES_PART} AS left_out
    FROM {matched} LEFT ANY JOIN attempt_visitors ON {matched}.unit = attempt_visitors.unit"""


def _folded_cohorts(plan: Plan) -> str:
    """A few rows per cohort of the units that the general fold counted."""
    return f"""
    SELECT any(units.keys) AS keys, {figures.of_units(plan)}
    FROM units GROUP BY {figures.PARTS}"""


def entry_values(plan: Plan) -> str:
    """Every combination of values of the events in the period that match step 1.

    Columns: value (combined hash), keys (a hash each), texts (tagged texts).
    """
    places = range(1, plan.breadth + 1)
    names = dict(zip(places, plan.definition.breakdown_properties, strict=True))
    read = ", ".join(
        f"{property_hash(name, plan.binder)} AS key_{j}, "
        f"{property_text(name, plan.binder)} AS text_{j}"
        for j, name in names.items()
    )
    known = ", ".join(f"any(key_{j}) AS key_{j}, any(text_{j}) AS text_{j}" for j in places)
    keys, texts = ([f"{column}_{j}" for j in places] for column in ("key", "text"))
    starts = " OR ".join(match_condition(match, plan.binder) for match in plan.steps[0].row.matches)
    events = event_source_with_touches(plan) if plan.definition.read_touches else "events"
    return f"""
    SELECT value, [{", ".join(keys)}] AS keys,
           arrayMap(text -> if(text = '{COMPOSITE}', '', text), [{", ".join(texts)}]) AS texts
    FROM (
        SELECT {combined(keys)} AS value, {known}
        FROM (SELECT {read} FROM {events}
              WHERE {event_scope(plan)} AND {name_scope(plan)} AND ({starts})
                AND {period_scope(plan)})
        GROUP BY value)"""


def _simple_cohorts(plan: Plan) -> str:
    """Tallies of simple units, and of events without a unit, as cohorts."""
    keys, join = _zeros(0), ""
    if plan.breadth:
        keys = f"arrayResize(entry_values.keys, {plan.breadth})"
        join = "LEFT ANY JOIN entry_values ON tallies.value = entry_values.value"
    return f"""
    SELECT {keys} AS keys, {figures.COLUMNS}
    FROM tallies {join} WHERE class IN ({SIMPLE}, {UNITLESS})"""


def _events_outside(plan: Plan, counted_as: str, events: str, count: str = "count()") -> str:
    """Events of the period that match a required step and belong to no unit.

    They have the shape of a cohort that nobody entered. counted_as: the figure that counts them.
    events: a relation and its condition.
    """
    return f"""
    SELECT {_zeros(plan.breadth)} AS keys, {figures.of_events(counted_as, count)}
    FROM {events}"""


def _zeros(length: int) -> str:
    return f"CAST([{', '.join('0' for _ in range(length))}], 'Array(UInt64)')"


def _is_counted_event(plan: Plan) -> str:
    """Whether an event matches a required step inside the period."""
    return f"{plan.overlaps('mask', plan.required)} AND {plan.in_period('ts')}"


def in_cohort_filter(plan: Plan) -> str:
    """Whether a cohort passes the exact cohort filter."""
    conditions = ["1"]
    for name, value in plan.params.cohort.items():
        place = plan.definition.breakdown_properties.index(name) + 1
        conditions.append(f"keys[{place}] = {_key_of(plan, name, value)}")
    return " AND ".join(conditions)


def _key_of(plan: Plan, name: str, value: Scalar | None) -> str:
    text = tagged(value)
    if not text:
        return "0"
    if name in BUILTIN_FIELDS:
        return text_hash(plan.binder.bind("String", text))
    return plan.binder.bind("UInt64", value_hash(text) % 2**64)


def _grouped(plan: Plan, parts: Sequence[str]) -> str:
    """The cohorts and their total. The cohort filter applies to counts, not to data quality.

    Units of one cohort may come from both folds.
    """
    rows = " UNION ALL ".join(f"SELECT keys, {figures.COLUMNS} FROM {part}" for part in parts)
    if not plan.breadth:
        return f"""
    SELECT sumForEach(counted) AS counted, sumForEach(quality) AS quality,
           quantileExactInclusiveMerge(0.5)(completion) AS median_ms
    FROM ({rows})"""
    selected = in_cohort_filter(plan)
    return f"""
    SELECT keys, grouping(keys) = 1 AS is_total,
           sumForEachIf(counted, {selected}) AS counted, sumForEach(quality) AS quality,
           sumForEach(arrayMap(key -> if(key = 0, {figures.ENTERED}, 0), keys)) AS missing,
           quantileExactInclusiveMergeIf(0.5)(completion, {selected}) AS median_ms
    FROM ({rows}) GROUP BY GROUPING SETS ((keys), ())"""


def _ranked(plan: Plan) -> str:
    """The total, and the cohorts in their order.

    They are sorted as the params say, then by `entered`, then by value with missing ones last.
    """
    columns = f"median_ms, {figures.LISTS}"
    if not plan.breadth:
        return f"""
    SELECT 1 AS is_total, CAST([], 'Array(String)') AS texts, {columns}, 1 AS place,
           1 AS cohort_count
    FROM grouped"""
    places = range(1, plan.breadth + 1)
    order = ", ".join([*_sorting(plan), *(f"texts[{j}] = '', texts[{j}]" for j in places)])
    return f"""
    SELECT is_total, arrayResize(known.texts, {plan.breadth}) AS texts, {columns}, missing,
           row_number() OVER (PARTITION BY is_total ORDER BY {order}) AS place,
           count() OVER () - 1 AS cohort_count
    FROM grouped LEFT ANY JOIN ({known_texts(plan)}) AS known ON grouped.keys = known.keys
    WHERE is_total OR {figures.ENTERED} > 0"""


def _sorting(plan: Plan) -> list[str]:
    entered, completed = figures.ENTERED, figures.completed(plan)
    pending = figures.pending(plan)
    figure = {
        Sort.ENTERED: entered,
        Sort.COMPLETED: completed,
        Sort.PENDING: pending,
        Sort.DROPPED_OFF: f"{entered} - {completed} - {pending}",
        Sort.CONVERSION_RATE: f"{completed} / {entered}",
        Sort.MEDIAN_COMPLETION_MINUTES: f"if({completed} = 0, NULL, median_ms)",
    }[plan.params.sort]
    direction = "DESC" if plan.params.descending else "ASC"
    return list(dict.fromkeys((f"{figure} {direction} NULLS LAST", f"{entered} DESC NULLS LAST")))


def known_texts(plan: Plan) -> str:
    """The texts of every possible cohort, by its keys.

    Tied entries may agree on some values only. So these are the combinations of entry values, and
    each combination with any of its values missing.
    """
    places = f"range({plan.breadth})"
    part = f"""tuple(
            arrayMap((key, j) -> if(bitTest(kept, j), key, 0), keys, {places}),
            arrayMap((text, j) -> if(bitTest(kept, j), text, ''), texts, {places}))"""
    return f"""
        SELECT part.1 AS keys, any(part.2) AS texts FROM (
            SELECT arrayJoin(arrayMap(kept -> {part}, range({2**plan.breadth}))) AS part
            FROM entry_values)
        GROUP BY keys"""
