"""The statement of a funnel report: units grouped by cohort, the total, and one page of cohorts.

docs/development/statement.md shows a complete statement.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements import figures
from penstock.funnels.statements.cohorts import entry_values, in_cohort_filter, texts_join
from penstock.funnels.statements.packed import SIMPLE, UNITLESS
from penstock.funnels.statements.query import (
    DataProfile,
    Plan,
    QueryParams,
    SharedFold,
    Sort,
    Statement,
    Strategy,
)
from penstock.funnels.statements.relations import compose, unit_relations
from penstock.funnels.statements.shared_fold import (
    is_complete,
    send_events,
    shards_of,
    shared_relations,
)
from penstock.funnels.statements.stored import stored_unitless

_ALL = "SELECT * FROM ranked ORDER BY is_total DESC, rank"


def build(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    strategy: Strategy = Strategy.AUTO,
) -> Statement:
    """Return the statement of a report. `penstock.funnels.results.shaping` reads its columns."""
    return _report(Plan(definition, params, profile), strategy, _page)


def build_export(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    strategy: Strategy = Strategy.AUTO,
) -> Statement:
    """Build the statement of an export: the total, then all cohorts in the order of the report.

    The columns are the same as in `build`. There are no rows if there is nothing to count.
    """
    return _report(Plan(definition, params, profile), strategy, lambda _: _ALL)


def _page(plan: Plan) -> str:
    first = plan.binder.bind("UInt64", plan.params.page.offset + 1)
    last = plan.binder.bind("UInt64", plan.params.page.offset + plan.params.page.size)
    return f"""
    SELECT * FROM ranked WHERE is_total OR rank BETWEEN {first} AND {last}
    ORDER BY is_total DESC, rank"""


def _report(plan: Plan, strategy: Strategy, tail_of: Callable[[Plan], str]) -> Statement:
    """Return a statement that ends with a tail, and how shards share its fold."""
    relations, parts = _cohorts(plan, strategy)
    whole = relations | _totals(plan, f"({_rows(plan, parts)})")
    tail = tail_of(plan)
    statement = compose(plan, whole, tail)
    shards = shards_of(plan)
    if shards is None:
        return statement
    own = shared_relations(plan, relations)
    complete = is_complete(plan, shards)
    rows = f"SELECT * FROM ({_rows(plan, parts)}) WHERE {complete}"
    rows = compose(plan, own, rows).sql
    values = {"entry_values": entry_values(plan, on_shards=True)} if plan.breadth else {}
    # The query around it adds up the rows here, so that the states of medians arrive only once.
    received = f"(SELECT * FROM {shards.read(rows)})"
    fold = compose(plan, values | _totals(plan, received), tail).sql
    return replace(statement, shared=SharedFold(send_events(plan, shards), fold))


def report_relations(plan: Plan, strategy: Strategy = Strategy.AUTO) -> dict[str, str]:
    """Return the relations of a report by name; the last is `ranked`."""
    relations, parts = _cohorts(plan, strategy)
    return relations | _totals(plan, f"({_rows(plan, parts)})")


def _cohorts(plan: Plan, strategy: Strategy) -> tuple[dict[str, str], list[str]]:
    """Return the relations of a report up to its cohorts, and the names of those with cohorts.

    Units of one cohort may be in several of them, because they come from both folds.
    """
    relations, layout = unit_relations(plan, strategy, detailed=False)
    cohorts = {"folded": _folded_cohorts(plan)}
    if layout:
        cohorts["simple"] = _simple_cohorts(plan)
    elif plan.profile.build is not None:
        cohorts["unitless"] = _events_outside(
            plan, "unitless", stored_unitless(plan), count="sum(events)"
        )
    elif plan.by_attempt:
        without_unit = f"matched WHERE unit = 0 AND {_is_counted_event(plan)}"
        cohorts["unitless"] = _events_outside(plan, "unitless", without_unit)
    if "checked" in relations:
        left_out = f"checked WHERE left_out AND unit != 0 AND {_is_counted_event(plan)}"
        cohorts["unverified"] = _events_outside(plan, "unverified", left_out)
    return relations | cohorts, list(cohorts)


def _folded_cohorts(plan: Plan) -> str:
    """Sum up the units of the general fold, in a few rows per cohort."""
    return f"""
    SELECT any(units.keys) AS keys, {figures.unit_figures(plan)}
    FROM units GROUP BY {figures.parts(plan)}"""


def _simple_cohorts(plan: Plan) -> str:
    """Convert the tallies of simple units, and of events without a unit, to cohorts."""
    keys, join = _zeros(0), ""
    if plan.breadth:
        keys = f"arrayResize(entry_values.keys, {plan.breadth})"
        join = "LEFT ANY JOIN entry_values ON tallies.value = entry_values.value"
    return f"""
    SELECT {keys} AS keys, {figures.columns(plan)}
    FROM tallies {join} WHERE class IN ({SIMPLE}, {UNITLESS})"""


def _events_outside(plan: Plan, counted_as: str, events: str, count: str = "count()") -> str:
    """Count the events of the period that match a required step without belonging to a unit.

    The row has the shape of a cohort without entries. counted_as: name of the figure for the
    count. events: a relation and its condition.
    """
    return f"""
    SELECT {_zeros(plan.breadth)} AS keys, {figures.event_figures(plan, counted_as, count)}
    FROM {events}"""


def _zeros(length: int) -> str:
    return f"CAST([{', '.join('0' for _ in range(length))}], 'Array(UInt64)')"


def _is_counted_event(plan: Plan) -> str:
    """Whether an event matches a required step inside the period."""
    return f"{plan.overlaps('mask', plan.required)} AND {plan.in_period('ts')}"


def _rows(plan: Plan, parts: Sequence[str]) -> str:
    """Return the rows of all relations with cohorts."""
    columns = figures.columns(plan)
    return " UNION ALL ".join(f"SELECT keys, {columns} FROM {part}" for part in parts)


def _totals(plan: Plan, rows: str) -> dict[str, str]:
    return {"grouped": _grouped(plan, rows), "ranked": _ranked(plan)}


def _grouped(plan: Plan, rows: str) -> str:
    """Return the cohorts and their total. The cohort filter applies to counts, not to data quality.

    rows: `_rows` in brackets, or a relation with them.
    """
    if not plan.breadth:
        return f"""
    SELECT sumForEach(counted) AS counted, sumForEach(quality) AS quality,
           quantileExactInclusiveMerge(0.5)(completion) AS median_ms{figures.sum_of_ages(plan)}
    FROM {rows}"""
    selected = in_cohort_filter(plan)
    return f"""
    SELECT keys, grouping(keys) = 1 AS is_total,
           sumForEachIf(counted, {selected}) AS counted, sumForEach(quality) AS quality,
           sumForEach(arrayMap(key -> if(key = 0, {figures.ENTERED}, 0), keys)) AS missing,
           quantileExactInclusiveMergeIf(0.5)(completion, {selected}) AS median_ms
           {figures.sum_of_ages(plan, selected)}
    FROM {rows} GROUP BY GROUPING SETS ((keys), ())"""


def _ranked(plan: Plan) -> str:
    """Return the total and the sorted cohorts.

    Cohorts are sorted by the figure that the parameters select, then by `entered`, then by value
    with missing values last.
    """
    columns = f"median_ms, {figures.LISTS}{', waiting_ages' if plan.params.ages_ms else ''}"
    if not plan.breadth:
        return f"""
    SELECT 1 AS is_total, CAST([], 'Array(String)') AS texts, {columns}, 1 AS rank,
           1 AS cohort_count
    FROM grouped"""
    numbers = range(1, plan.breadth + 1)
    order = ", ".join([*_sorting(plan), *(f"texts[{j}] = '', texts[{j}]" for j in numbers)])
    texts, join = texts_join(plan, "grouped")
    return f"""
    SELECT is_total, {texts} AS texts, {columns}, missing,
           row_number() OVER (PARTITION BY is_total ORDER BY {order}) AS rank,
           count() OVER () - 1 AS cohort_count
    FROM grouped {join}
    WHERE is_total OR {figures.ENTERED} > 0{_and_contains(plan)}"""


def _and_contains(plan: Plan) -> str:
    """Return the condition that one of a cohort's values, as pages show it, contains the text."""
    if not plan.params.search:
        return ""
    search = plan.binder.bind("String", plan.params.search)
    value = "if(text = '', 'Unknown', substring(text, 2))"
    return f" AND arrayExists(text -> positionCaseInsensitiveUTF8({value}, {search}) > 0, texts)"


def _sorting(plan: Plan) -> list[str]:
    entered, completed = figures.ENTERED, figures.completed_units(plan)
    pending = figures.pending_units(plan)
    early = figures.early_units(plan)
    excluded, eligible = figures.excluded_units(plan), figures.eligible_units(plan)
    settled = f"({eligible} - {pending} - {early} - {figures.reopened_units(plan)})"
    conversion_rate = f"{completed} / {eligible}"
    if plan.excludes:
        conversion_rate = f"if({eligible} = 0, NULL, {conversion_rate})"
    figure = {
        Sort.ENTERED: entered,
        Sort.COMPLETED: completed,
        Sort.PENDING: pending,
        Sort.DROPPED_OFF: f"{eligible} - {completed} - {pending}",
        Sort.EXCLUDED: excluded,
        Sort.CONVERSION_RATE: conversion_rate,
        Sort.SETTLED_RATE: f"if({settled} = 0, NULL, ({completed} - {early}) / {settled})",
        Sort.MEDIAN_COMPLETION_MINUTES: f"if({completed} = 0, NULL, median_ms)",
    }[plan.params.sort]
    direction = "DESC" if plan.params.descending else "ASC"
    return list(dict.fromkeys((f"{figure} {direction} NULLS LAST", f"{entered} DESC NULLS LAST")))
