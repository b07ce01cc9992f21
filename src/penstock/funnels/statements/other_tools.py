"""Counts the same units by several sets of rules, ours and those of another tool, and compares.

Source: docs/other-tools.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.counted_units import counted_units
from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.providers import checked_events
from penstock.funnels.statements.query import (
    DataProfile,
    Plan,
    QueryParams,
    Statement,
    Strategy,
    Subset,
)
from penstock.funnels.statements.relations import with_relations

EXCLUDED = 128
"""Added to the result of a unit that was excluded after the step that it reached."""
MAX_NAMED_UNITS = 2_000
"""Maximum number of unexplained units whose keys `compared` returns for each of its rows."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that count units.

    tick_ms: times are rounded down to a multiple of it. modes: count with the engine's function
    `windowFunnel` in these modes; None for our own fold.
    """

    definition: Definition
    params: QueryParams
    tick_ms: int = 1
    modes: tuple[str, ...] | None = None


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

    Columns: entered_here, entered_there, completed_here, completed_there (1 or 0), differs (whether
    the results do), explained (a mask with a bit for each of `tried` that has the result of there;
    0 if the results do not differ), units (their number) and named (keys of unexplained ones, at
    most `MAX_NAMED_UNITS`).
    """
    first = _plan(here, profile, units)
    results = _results(first, [here, there, *tried], profile, units)
    explains = " + ".join(f"{1 << at} * (results[{at + 3}] = there)" for at in range(len(tried)))
    completed = len(here.definition.steps)
    sql = f"""
    SELECT here > 0 AS entered_here, there > 0 AS entered_there,
           here = {completed} AS completed_here, there = {completed} AS completed_there,
           here != there AS differs, if(differs, {explains or "0"}, 0) AS explained,
           count() AS units,
           groupArrayIf({MAX_NAMED_UNITS})(unit, differs AND explained = 0) AS named
    FROM (SELECT unit, results, results[1] AS here, results[2] AS there FROM ({results}))
    GROUP BY entered_here, entered_there, completed_here, completed_there, differs, explained"""
    return Statement(sql, first.binder.values)


def _results(
    first: Plan, rules: Sequence[Rules], profile: DataProfile, units: Sequence[int] | None
) -> str:
    """Select each unit and its results by all rules, in order."""
    each = []
    for at, own in enumerate(rules):
        plan = _plan(own, profile, units)
        plan.binder = first.binder
        counted = _folded(plan) if own.modes is None else _by_function(plan, own.modes)
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


def _folded(plan: Plan) -> str:
    relations = counted_units(plan, Strategy.AUTO)
    result = f"toUInt8(reached + {EXCLUDED} * (excluded_after >= 0))"
    tail = f"SELECT unit, {result} AS result FROM counted"
    return with_relations(relations, tail, ("chains",))


def _by_function(plan: Plan, modes: Sequence[str]) -> str:
    """Count with the engine's function over the events that match a row.

    Only where order is strict does it read all events, because each of them breaks the order.
    """
    relations = {"matched": matched_events(plan, matching="strict_order" not in modes)}
    events = "matched"
    if plan.definition.attempt_keys and plan.profile.has_provider_events:
        relations |= checked_events(plan, events)
        events = "(SELECT * FROM checked WHERE NOT left_out)"
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
