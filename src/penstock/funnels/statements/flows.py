"""Statement for flows: the first events of units from a point of the funnel, as paths."""

from enum import StrEnum

from penstock.funnels.statements.cohorts import in_cohort_filter
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import Plan, Statement
from penstock.funnels.statements.unit_events import chosen_columns, unit_events

DEPTH = 3
"""Number of events in a path."""
MAX_BRANCHES = 5
"""Maximum number of different events after the same path, most frequent first."""


class Where(StrEnum):
    """The part of a unit's history that a flow shows.

    BEFORE: before the entry, from the nearest event back. BETWEEN: between a step and a later one,
    of units that reached the later one. AFTER: after a step, of units that dropped off there.
    """

    BEFORE = "before"
    BETWEEN = "between"
    AFTER = "after"


def flows(
    counted: CountedUnits, where: Where, step: int, to_step: int, *, of_visitors: bool
) -> Statement:
    """Count units by the beginning of their path.

    step: ignored before the entry. to_step: the later step of `Where.BETWEEN`. of_visitors: see
    `unit_events`. Columns: start (pairs of kind and name, at most `DEPTH`), units, and ended (those
    without another event). An empty start stands for all units. Before the entry, events count from
    one conversion window before it.
    """
    plan = counted.plan
    chosen = f"""
        SELECT {chosen_columns(plan)}, {_since(plan, where, step)} AS since,
               {_until(where, to_step)} AS until
        FROM counted WHERE {in_cohort_filter(plan)} AND {_selected(plan, where, step, to_step)}"""
    relations, events = unit_events(plan, chosen, ("since", "until"), of_visitors=of_visitors)
    order = "-ts" if where is Where.BEFORE else "end_ts"
    inside = {
        Where.BEFORE: "ts >= since AND end_ts < until",
        Where.BETWEEN: "end_ts > since AND ts != since AND ts < until",
        Where.AFTER: "end_ts > since AND ts != since AND ts <= until",
    }[where]
    paths = f"""
        SELECT unit, arrayMap(event -> (event.3, event.4),
                   groupArraySorted({DEPTH + 1})(({order}, event_id, kind, name))) AS path
        FROM ({events}) WHERE {inside} GROUP BY unit"""
    counts = f"""
        SELECT start, count() AS units, countIf(is_whole) AS ended
        FROM (
            SELECT arraySlice(path, 1, level) AS start, length(path) = level AS is_whole
            FROM (SELECT path, arrayJoin(range(1, {DEPTH + 1})) AS level FROM paths)
            WHERE length(path) >= level)
        GROUP BY start"""
    return counted.statement(
        f"""
        SELECT CAST([], 'Array(Tuple(String, String))') AS start, count() AS units,
               count() - (SELECT count() FROM paths) AS ended
        FROM chosen
        UNION ALL
        SELECT * FROM (
            SELECT start, units, ended FROM counts ORDER BY length(start), units DESC, start
            LIMIT {MAX_BRANCHES} BY length(start), arrayPopBack(start))""",
        materialized=("chosen", "paths"),
        **relations,
        paths=paths,
        counts=counts,
    )


def _selected(plan: Plan, where: Where, step: int, to_step: int) -> str:
    """Whether a unit has the part of the history."""
    if where is Where.BEFORE:
        return "1"
    if where is Where.BETWEEN:
        return f"reached >= {to_step}"
    return f"reached = {step} AND excluded_after < 0 AND {plan.evaluated_at()} > window_end"


def _since(plan: Plan, where: Where, step: int) -> str:
    if where is Where.BEFORE:
        return "toInt64(0)" if plan.window_ms is None else f"entry_ts - {plan.window_ms}"
    return f"done[{step}]"


def _until(where: Where, to_step: int) -> str:
    return {
        Where.BEFORE: "entry_ts",
        Where.BETWEEN: f"done[{to_step}]",
        Where.AFTER: "window_end",
    }[where]
