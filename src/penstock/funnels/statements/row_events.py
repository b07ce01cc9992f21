"""Statement that counts the events of rows, whether or not they count for any unit."""

from collections.abc import Sequence
from dataclasses import replace

from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.events import name_scope
from penstock.funnels.statements.matching import match_condition
from penstock.funnels.statements.query import DataProfile, Plan, QueryParams, Statement
from penstock.funnels.statements.sources import event_scope, joined_events
from penstock.funnels.statements.unit_keys import unit_key


def row_events(
    definition: Definition, params: QueryParams, profile: DataProfile, rows: Sequence[int]
) -> Statement:
    """Count the events of each match of the given rows.

    Events of steps are counted from the period to its last window's end. Those of other rows are
    counted in all of history, because a good week has no event that excludes.

    rows: indexes of rows. Columns: named (events of the match's kind and name), matching (those
    that pass its filters), identified (those that also have an attempt ID) and counted (those whose
    payment provider, if any, also named a known visitor or user); each is a list with a number for
    each match of each row, in order.
    """
    plan = Plan(definition, params, profile)
    inside, chosen = in_windows(plan), [definition.rows[index] for index in rows]
    matches = [
        (match, f" AND {inside}" if row.required else "") for row in chosen for match in row.matches
    ]
    named = [match_condition(replace(match, filters=()), plan) + time for match, time in matches]
    matching = [match_condition(match, plan) + time for match, time in matches]
    scope = inside if all(row.required for row in chosen) else "1"
    columns = {
        "named": "sumForEach(has_name)",
        "matching": "sumForEach(passes)",
        "identified": "sumForEachIf(passes, unit != 0)",
        "counted": "sumForEachIf(passes, unit != 0 AND takes_part)",
    }
    # Without events, the sums are empty.
    sums = [f"arrayResize({sum_}, {len(matches)}) AS {name}" for name, sum_ in columns.items()]
    return Statement(
        f"""
        SELECT {", ".join(sums)} FROM (
            SELECT {unit_key(plan)} AS unit, [{", ".join(named)}] AS has_name,
                   [{", ".join(matching)}] AS passes, {_takes_part(definition)} AS takes_part
            FROM {joined_events(plan)}
            WHERE {event_scope(plan)} AND {name_scope(plan)} AND {scope})""",
        plan.binder.values,
    )


def _takes_part(definition: Definition) -> str:
    """Whether an event may belong to a unit. Of an attempt's events, those of providers need a
    verified link to a visitor.
    """
    return "events.source != 'provider' OR events.verified" if definition.attempt_keys else "1"


def in_windows(plan: Plan) -> str:
    """Whether an event is in the period or in a window that starts there."""
    start_ms, end_ms = plan.params.start_ms, plan.params.end_ms
    if start_ms is None or end_ms is None:
        return "1"
    conditions = [f"events.occurred_at >= {_time(plan, start_ms)}"]
    if plan.window_ms is not None:
        conditions.append(f"events.occurred_at < {_time(plan, end_ms + plan.window_ms)}")
    return " AND ".join(conditions)


def _time(plan: Plan, at_ms: int) -> str:
    return f"fromUnixTimestamp64Milli({plan.binder.bind('Int64', at_ms)})"
