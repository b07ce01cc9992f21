"""What is asked of single units: what they are called, their visitors, their events.

Each function gives one statement; comments of its columns stand in its docstring. Source: contract, "Funnels".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.scalar import tagged, value_hash
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.matching import property_text
from penstock.funnels.statements.query import (
    Facts,
    Plan,
    Question,
    Statement,
    event_scope,
    event_source,
    matched_events,
    name_scope,
    unit_key,
    visitor_key,
)


def unit_names(definition: Definition, question: Question, facts: Facts, units: Sequence[int], *, every_name: bool = False) -> Statement:
    """What units are called: the attempt ID, or the canonical visitor's ID. every_name: also of units that match no row.

    Columns: unit, name.
    """
    plan = Plan(definition, question, facts)
    names = "1" if every_name else name_scope(plan)
    asked = plan.binder.bind("Array(UInt64)", list(units))
    if definition.attempt_property is not None:
        name = f"substring(any({property_text(definition.attempt_property, plan.binder)}), 2)"
        sql = f"""
        SELECT {unit_key(plan)} AS unit, {name} AS name FROM events
        WHERE {event_scope(plan)} AND {names} AND unit IN {asked} GROUP BY unit"""
    else:
        scopes = plan.binder.bind("Array(String)", list(question.scope_ids))
        # A canonical visitor may have no event of its own: then the alias that leads to it has its ID.
        sql = f"""
        SELECT unit, any(name) AS name FROM (
            SELECT visitor_key AS unit, visitor_id AS name FROM events WHERE {event_scope(plan)} AND visitor_key IN {asked}
            UNION ALL
            SELECT canonical_key, canonical_id FROM visitor_aliases WHERE scope_id IN {scopes} AND canonical_key IN {asked})
        GROUP BY unit"""
    return Statement(sql, plan.binder.values)


def visitors_named(question: Question, visitor_id: str) -> Statement:
    """The canonical visitors that an ID stands for, one for each identity scope. Column: unit."""
    binder = Binder()
    scopes, named = binder.bind("Array(String)", list(question.scope_ids)), binder.bind("String", visitor_id)
    return Statement(
        f"""
        SELECT if(kept.canonical_key = 0, sipHash64(scopes.scope_id, {named}), kept.canonical_key) AS unit
        FROM (SELECT arrayJoin({scopes}) AS scope_id) AS scopes
        LEFT JOIN (
            SELECT scope_id, argMax(canonical_key, version) AS canonical_key FROM visitor_aliases
            WHERE scope_id IN {scopes} AND visitor_id = {named} GROUP BY scope_id
        ) AS kept ON scopes.scope_id = kept.scope_id""",
        binder.values,
    )


@dataclass(frozen=True, slots=True)
class Whose:
    """Which unit, or which of several that one visitor ID may stand for. attempt: the ID of an attempt, None for visitors."""

    units: tuple[int, ...]
    attempt: str | None = None


def attempt_named(attempt_id: str) -> Whose:
    """Source: `unit_key`."""
    return Whose((((value_hash(tagged(attempt_id)) % 2**64) >> 3) + 1,), attempt_id)


def visitors_of_attempt(definition: Definition, question: Question, facts: Facts, whose: Whose) -> Statement:
    """The canonical visitors of an attempt's events that are no payment provider's (R18). Column: visitor."""
    plan = Plan(definition, question, facts)
    sql = f"""
        SELECT DISTINCT {visitor_key(plan)} AS visitor FROM {event_source(plan)}
        WHERE {event_scope(plan)} AND events.source != 'provider' AND {_is_unit(plan, whose)}"""
    return Statement(sql, plan.binder.values)


def unit_events(
    definition: Definition, question: Question, facts: Facts, whose: Whose, properties: Sequence[str], most: int, *, matching: bool
) -> Statement:
    """The events of a unit, oldest first. properties: whose tagged texts are wanted. matching: only those that a row matches.

    Columns: scope_id, event_id, kind, name, ts, source, verified, visitor_id (as stored), visitor (canonical, a number), number_sent, seq,
    invalid, mask, texts.
    """
    plan = Plan(definition, question, facts)
    return Statement(_events(plan, _is_unit(plan, whose), properties, most, matching=matching), plan.binder.values)


def one_event(definition: Definition, question: Question, facts: Facts, event_id: str, properties: Sequence[str]) -> Statement:
    """As `unit_events`, of one event; `unit` tells whether it has one."""
    plan = Plan(definition, question, facts)
    named = f"events.event_id = {plan.binder.bind('String', event_id)}"
    return Statement(_events(plan, named, properties, 1, matching=False), plan.binder.values)


def _events(plan: Plan, which: str, properties: Sequence[str], most: int, *, matching: bool) -> str:
    texts = ", ".join(property_text(name, plan.binder) for name in properties)
    more = f"""toString(events.scope_id) AS scope_id, toString(events.kind) AS kind, toString(events.name) AS name,
           toString(events.source) AS source, events.visitor_id AS visitor_id, CAST([{texts}], 'Array(String)') AS texts,"""
    return (
        f"{matched_events(plan, matching=matching, more=more)} AND {which} ORDER BY ts, event_id LIMIT {plan.binder.bind('UInt64', most)}"
    )


def _is_unit(plan: Plan, whose: Whose) -> str:
    units = plan.binder.bind("Array(UInt64)", list(whose.units))
    if whose.attempt is None or plan.definition.attempt_property is None:
        return f"{visitor_key(plan)} IN {units}"
    texts = plan.binder.bind("Array(String)", [tag + whose.attempt for tag in "sn"])
    return f"{unit_key(plan)} IN {units} AND {property_text(plan.definition.attempt_property, plan.binder)} IN {texts}"
