"""Statement that counts the events of steps, whether or not they count for any unit."""

from collections.abc import Sequence
from dataclasses import replace

from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.events import name_scope
from penstock.funnels.statements.matching import match_condition
from penstock.funnels.statements.query import DataProfile, Plan, QueryParams, Statement
from penstock.funnels.statements.sources import event_scope, joined_events
from penstock.funnels.statements.unit_keys import unit_key


def step_events(
    definition: Definition, params: QueryParams, profile: DataProfile, steps: Sequence[int]
) -> Statement:
    """Count the events of each match of the given steps, from the period to its last window's end.

    Columns: named (events of the match's kind and name), matching (those that pass its filters) and
    counted (those that also have an attempt ID); each is a list with a number for each match of
    each step, in order.
    """
    plan = Plan(definition, params, profile)
    matches = [match for step in steps for match in plan.steps[step - 1].row.matches]
    named = [match_condition(replace(match, filters=()), plan) for match in matches]
    matching = [match_condition(match, plan) for match in matches]
    columns = {
        "named": "sumForEach(has_name)",
        "matching": "sumForEach(passes)",
        "counted": "sumForEachIf(passes, unit != 0)",
    }
    # Without events, the sums are empty.
    sums = [f"arrayResize({sum_}, {len(matches)}) AS {name}" for name, sum_ in columns.items()]
    return Statement(
        f"""
        SELECT {", ".join(sums)} FROM (
            SELECT {unit_key(plan)} AS unit, [{", ".join(named)}] AS has_name,
                   [{", ".join(matching)}] AS passes
            FROM {joined_events(plan)}
            WHERE {event_scope(plan)} AND {name_scope(plan)} AND {_in_windows(plan)})""",
        plan.binder.values,
    )


def _in_windows(plan: Plan) -> str:
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
