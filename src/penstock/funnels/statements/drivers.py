"""Statements about the loss after a step: lost and all units by entry property, trait and event.

They look at settled units that reached the step, and read at most `MAX_UNITS` of these, chosen by
their keys, which are hashes. Lists of units with an event read the same units and events.
"""

from dataclasses import dataclass

from penstock.funnels.definitions.builtins import BUILTIN_COLUMNS, TRAIT_PREFIX
from penstock.funnels.definitions.filters import MAX_KEY_BYTES
from penstock.funnels.statements.cohorts import in_cohort_filter
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.events import (
    name_scope,
    period_scope,
)
from penstock.funnels.statements.matching import match_condition
from penstock.funnels.statements.query import Plan, Statement
from penstock.funnels.statements.relations import with_relations
from penstock.funnels.statements.sources import event_scope, joined_events
from penstock.funnels.statements.unit_events import chosen_columns, owner_of, unit_events
from penstock.funnels.statements.unit_keys import unit_key

MAX_UNITS = 100_000
MAX_VALUES = 10
"""Maximum number of values per property, most frequent first."""
MAX_EVENTS = 50
"""Maximum number of different events, most frequent first."""

_MAX_ROWS = 1_000
_MAX_VALUE_BYTES = 256


def entry_groups(counted: CountedUnits, step: int, min_units: int) -> Statement:
    """Count units by the properties of their entry event and the traits of its visitor.

    Columns: name, value (JSON text), units, lost (those that got no further), at_risk (number of
    all such units, which may be more than the statement reads). An empty name stands for all units,
    and an empty value for all units with the property. If several events are tied for the entry, a
    property counts only if they agree on it. min_units: leaves out smaller groups.
    """
    plan = counted.plan
    starts = " OR ".join(match_condition(match, plan) for match in plan.entry_matches)
    chosen = f"""
        SELECT {chosen_columns(plan)}, entry_ts, reached = {step} AS is_lost,
               count() OVER () AS at_risk
        FROM counted WHERE {_at_risk(plan, step)} ORDER BY unit LIMIT {MAX_UNITS}"""
    entries = f"""
        SELECT {unit_key(plan)} AS unit,
               toInt64(toUnixTimestamp64Milli(events.occurred_at)) AS ts,
               arrayDistinct(
                   arrayConcat({_builtins(plan)}, {_properties()}, {_trait_pairs(plan)})) AS pairs
        FROM {joined_events(plan, all_traits=True)}
        WHERE {event_scope(plan)} AND {name_scope(plan)} AND ({starts}) AND {period_scope(plan)}"""
    per_unit = f"""
        SELECT any(chosen.is_lost) AS is_lost, any(chosen.at_risk) AS at_risk,
               groupArrayIntersect(entries.pairs) AS pairs
        FROM ({entries}) AS entries
        INNER JOIN chosen ON entries.unit = chosen.{owner_of(plan)} AND entries.ts = chosen.entry_ts
        GROUP BY chosen.unit"""
    items = "arrayConcat([('', '')], arrayMap(pair -> (pair.1, ''), pairs), pairs)"
    return counted.statement(
        f"""
        SELECT item.1 AS name, item.2 AS value, count() AS units, countIf(is_lost) AS lost,
               any(at_risk) AS at_risk
        FROM (SELECT is_lost, at_risk, arrayJoin({items}) AS item FROM ({per_unit}))
        GROUP BY name, value HAVING units >= {plan.binder.bind("UInt64", min_units)} OR name = ''
        ORDER BY name != '', units DESC, name, value
        LIMIT {MAX_VALUES + 1} BY name LIMIT {_MAX_ROWS}""",
        chosen=chosen,
    )


def median_time(counted: CountedUnits, step: int) -> Statement:
    """Compute the median time from the completion of a step to that of the next one.

    The statement returns one row. Columns: median_ms, units (those that completed the next step).
    """
    plan = counted.plan
    continued = f"reached > {step}"
    columns = f"""
        quantileExactInclusiveIf(0.5)(done[{step + 1}] - done[{step}], {continued}) AS median_ms,
        countIf({continued}) AS units"""
    return counted.summary(columns, f"WHERE {in_cohort_filter(plan)}")


@dataclass(frozen=True, slots=True)
class AfterStep:
    """The events soon after a step.

    within_ms: time after the step. of_visitors: see `unit_events`.
    """

    step: int
    within_ms: int
    of_visitors: bool


@dataclass(frozen=True, slots=True)
class EventCondition:
    """Whether a unit has an event soon after a step.

    after: None if no unit continued after the step, so that there is no time to compare. kind: as
    stored. is_present: False for units without the event.
    """

    after: AfterStep | None
    kind: str
    name: str
    is_present: bool


def event_groups(counted: CountedUnits, after: AfterStep, min_units: int) -> Statement:
    """Count units by the events soon after a step.

    Columns: kind, name, units, lost (those that got no further). An empty kind stands for all
    compared units. min_units: leaves out smaller groups.
    """
    plan = counted.plan
    relations, events = _events_after(plan, after, _compared_units(plan, after))
    per_unit = f"SELECT unit, kind, name, any(is_lost) AS is_lost FROM ({events})"
    return counted.statement(
        f"""
        SELECT '' AS kind, '' AS name, count() AS units, countIf(is_lost) AS lost FROM chosen
        UNION ALL
        SELECT * FROM (
            SELECT kind, name, count() AS units, countIf(is_lost) AS lost
            FROM ({per_unit} GROUP BY unit, kind, name)
            GROUP BY kind, name HAVING units >= {plan.binder.bind("UInt64", min_units)}
            ORDER BY units DESC, kind, name LIMIT {MAX_EVENTS})""",
        materialized=("chosen",),
        **relations,
    )


def units_by_event(plan: Plan, event: EventCondition) -> tuple[dict[str, str], str]:
    """Return relations, and the condition on a counted unit that it is compared by an event.

    The condition selects the same units as a row of `event_groups`, or all others.
    """
    if event.after is None:
        return {}, "0"
    relations, events = _events_after(plan, event.after, "SELECT * FROM compared")
    kind, name = (plan.binder.bind("String", text) for text in (event.kind, event.name))
    with_event = f"SELECT unit FROM ({events}) WHERE kind = {kind} AND name = {name}"
    condition = "counted.unit IN (SELECT unit FROM with_event)"
    if not event.is_present:
        condition = f"counted.unit IN (SELECT unit FROM compared) AND NOT ({condition})"
    return {
        "compared": _compared_units(plan, event.after),
        "with_event": with_relations(relations, with_event),
    }, condition


def _compared_units(plan: Plan, after: AfterStep) -> str:
    """Select the units that are compared by events, and the time of these events.

    Units that completed the next step within this time, and units whose window ended within it, are
    left out, because the others have more time for events.
    """
    step = after.step
    until = f"done[{step}] + {plan.binder.bind('Int64', after.within_ms)}"
    return f"""
        SELECT {chosen_columns(plan)}, reached = {step} AS is_lost, done[{step}] AS since,
               {until} AS until
        FROM counted
        WHERE {_at_risk(plan, step)} AND (reached = {step} OR done[{step + 1}] >= {until})
              AND {until} <= window_end + 1
        ORDER BY unit LIMIT {MAX_UNITS}"""


def _events_after(plan: Plan, after: AfterStep, compared: str) -> tuple[dict[str, str], str]:
    """Return relations, and a query over them for the events of compared units soon after a step.

    compared: a query that selects the rows of `_compared_units`. The result has a row for each
    event, with the columns unit, is_lost, kind and name.
    """
    columns = ("is_lost", "since", "until")
    relations, events = unit_events(plan, compared, columns, of_visitors=after.of_visitors)
    return (
        relations,
        f"""
        SELECT unit, is_lost, kind, name FROM ({events})
        WHERE end_ts > since AND ts != since AND ts < until""",
    )


def _at_risk(plan: Plan, step: int) -> str:
    """Whether a settled unit reached a step."""
    conditions = [in_cohort_filter(plan), f"reached >= {step}", "excluded_after < 0"]
    return " AND ".join([*conditions, f"{plan.evaluated_at()} > window_end", "NOT open"])


def _builtins(plan: Plan) -> str:
    """Return the built-in fields of an event that have a value, as pairs of name and JSON text."""
    pairs = ", ".join(
        f"({plan.binder.bind('String', name)}, toString(events.{column}))"
        for name, column in BUILTIN_COLUMNS.items()
    )
    present = f"arrayFilter(pair -> pair.2 != '', [{pairs}])"
    return f"arrayMap(pair -> (pair.1, toJSONString(pair.2)), {present})"


def _trait_pairs(plan: Plan) -> str:
    """Return the traits of an event's visitor, as pairs of name and JSON text."""
    prefix = plan.binder.bind("String", TRAIT_PREFIX)
    value = "if(startsWith(text, 's'), toJSONString(substring(text, 2)), substring(text, 2))"
    return f"""arrayFilter(
            pair -> length(pair.1) <= {MAX_KEY_BYTES} AND length(pair.2) <= {_MAX_VALUE_BYTES},
            arrayMap((name, text) -> (concat({prefix}, name), {value}),
                mapKeys(traits.texts), mapValues(traits.texts)))"""


def _properties() -> str:
    """Return the scalar properties of an event that a filter can name, as pairs of name and JSON
    text.
    """
    return f"""arrayFilter(
            pair -> length(pair.1) BETWEEN 1 AND {MAX_KEY_BYTES} AND NOT startsWith(pair.1, '$')
                AND pair.2 != 'null' AND substring(pair.2, 1, 1) NOT IN ('{{', '[')
                AND length(pair.2) <= {_MAX_VALUE_BYTES},
            JSONExtractKeysAndValuesRaw(events.properties))"""
