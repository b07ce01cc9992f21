"""Statements about single units: their names, visitors and events.

Each docstring describes the statement's columns. Source: contract, "Funnels".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.funnels.definitions.builtins import ATTEMPT_BUILTINS, is_of_visitor
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.events import (
    matched_events,
    name_scope,
)
from penstock.funnels.statements.matching import property_text
from penstock.funnels.statements.query import (
    DataProfile,
    Plan,
    QueryParams,
    Statement,
)
from penstock.funnels.statements.sources import event_scope, keyed_events, visitor_key
from penstock.funnels.statements.unit_keys import has_attempt_text, unit_key


def unit_names(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    units: Sequence[int],
    *,
    every_name: bool = False,
    entries_ms: Sequence[int] | None = None,
) -> Statement:
    """Select the names of units.

    Columns of visitors: unit, scope, name (the canonical visitor's ID). Columns of attempts:
    unit, texts (of the properties and traits that are keys of the attempt ID, in order), scope and
    sent_by (the visitor ID of the first event that verifies one), and, for `$visitor` and
    `$session`, visitor (a number), website_id and session_id.

    every_name: include units that match no row. entries_ms: times of the attempts' entries, at
    which each attempt has an event; None if unknown.
    """
    plan = Plan(definition, params, profile)
    names = "1" if every_name else name_scope(plan)
    keys = plan.binder.bind("Array(UInt64)", list(units))
    if definition.attempt_keys:
        own = [key for key in definition.attempt_keys if key not in ATTEMPT_BUILTINS]
        texts = ", ".join(f"substring(any({property_text(key, plan.binder)}), 2)" for key in own)
        of_visitor = any(map(is_of_visitor, definition.attempt_keys))
        source = keyed_events(plan) if of_visitor else "events"
        visitor = f"any({visitor_key(plan)})" if definition.has_one_visitor else "toUInt64(0)"
        if entries_ms is not None:
            at_ms = plan.binder.bind("Array(Int64)", sorted(set(entries_ms)))
            times = f"SELECT arrayJoin(arrayMap(ms -> fromUnixTimestamp64Milli(ms), {at_ms}))"
            names += f" AND events.occurred_at IN ({times})"
        sql = f"""
        SELECT {unit_key(plan)} AS unit, CAST([{texts}], 'Array(String)') AS texts,
               argMinIf((toString(events.scope_id), events.visitor_id), events.occurred_at,
                        events.source != 'provider' OR events.verified) AS sender,
               sender.1 AS scope, sender.2 AS sent_by,
               {visitor} AS visitor, toString(any(events.website_id)) AS website_id,
               any(events.session_id) AS session_id
        FROM {source}
        WHERE {event_scope(plan)} AND {names} AND unit IN {keys} GROUP BY unit"""
    else:
        scopes = plan.binder.bind("Array(String)", list(params.scope_ids))
        # A canonical visitor may have no events. In that case, an alias contains its ID.
        sql = f"""
        SELECT unit, any(own_scope) AS scope, any(name) AS name FROM (
            SELECT visitor_key AS unit, toString(scope_id) AS own_scope, visitor_id AS name
            FROM events
            WHERE {event_scope(plan)} AND visitor_key IN {keys}
            UNION ALL
            SELECT canonical_key, toString(scope_id), canonical_id FROM visitor_aliases
            WHERE scope_id IN {scopes} AND canonical_key IN {keys})
        GROUP BY unit"""
    return Statement(sql, plan.binder.values)


def visitors_named(params: QueryParams, visitor_id: str) -> Statement:
    """Select the canonical visitor with the given ID in each identity scope. Column: unit."""
    binder = Binder()
    scopes = binder.bind("Array(String)", list(params.scope_ids))
    visitor = binder.bind("String", visitor_id)
    return Statement(
        f"""
        SELECT if(aliases.canonical_key = 0, sipHash64(scopes.scope_id, {visitor}),
                  aliases.canonical_key) AS unit
        FROM (SELECT arrayJoin({scopes}) AS scope_id) AS scopes
        LEFT JOIN (
            SELECT scope_id, argMax(canonical_key, version) AS canonical_key FROM visitor_aliases
            WHERE scope_id IN {scopes} AND visitor_id = {visitor} GROUP BY scope_id
        ) AS aliases ON scopes.scope_id = aliases.scope_id""",
        binder.values,
    )


@dataclass(frozen=True, slots=True)
class UnitSelector:
    """Conditions that all events of one unit meet, and no others.

    visitors: keys of canonical visitors, one of which the events have; None for any visitor. They
    are several if a visitor ID occurs in several scopes. texts: text of each property of the
    attempt ID. session: website and session ID.
    """

    visitors: tuple[int, ...] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    session: tuple[str, str] | None = None


def visitors_of_attempt(
    definition: Definition, params: QueryParams, profile: DataProfile, selector: UnitSelector
) -> Statement:
    """Select the canonical visitors of an attempt's non-provider events (R18). Column: visitor."""
    plan = Plan(definition, params, profile)
    sql = f"""
        SELECT DISTINCT {visitor_key(plan)} AS visitor FROM {keyed_events(plan)}
        WHERE {event_scope(plan)} AND events.source != 'provider' AND {_is_unit(plan, selector)}"""
    return Statement(sql, plan.binder.values)


def unit_events(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    selector: UnitSelector,
    properties: Sequence[str],
    limit: int,
    *,
    matching: bool,
) -> Statement:
    """Select the events of a unit, oldest first.

    properties: properties whose tagged texts to select. limit: number of events. matching: read
    only events that match a row. Columns: scope_id, event_id, client_event_id, kind, name, ts,
    source, verified, visitor_id (as stored), visitor (canonical, a number), number_sent, seq,
    invalid, mask, texts.
    """
    plan = Plan(definition, params, profile)
    return Statement(
        _events(plan, _is_unit(plan, selector), properties, limit, matching=matching),
        plan.binder.values,
    )


def events_with_id(
    definition: Definition,
    params: QueryParams,
    profile: DataProfile,
    event_id: str,
    properties: Sequence[str],
) -> Statement:
    """Select at most two events with the given ID. Penstock's ID sorts before the sender's.

    event_id: Penstock's ID of the event, or the sender's, which several events may share. Columns:
    as in `unit_events`; unit is 0 for an event without a unit.
    """
    plan = Plan(definition, params, profile)
    sent = plan.binder.bind("String", event_id)
    named = f"(events.event_id = {sent} OR events.client_event_id = {sent})"
    own_first = f"event_id != {sent}, ts, event_id"
    events = _events(plan, named, properties, 2, matching=False, order=own_first)
    return Statement(events, plan.binder.values)


def _events(
    plan: Plan,
    condition: str,
    properties: Sequence[str],
    limit: int,
    *,
    matching: bool,
    order: str = "ts, event_id",
) -> str:
    texts = ", ".join(property_text(name, plan.binder) for name in properties)
    more = {
        "scope_id": "toString(events.scope_id)",
        "client_event_id": "events.client_event_id",
        "kind": "toString(events.kind)",
        "name": "toString(events.name)",
        "source": "toString(events.source)",
        "visitor_id": "events.visitor_id",
        "texts": f"CAST([{texts}], 'Array(String)')",
    }
    maximum = plan.binder.bind("UInt64", limit)
    events = matched_events(plan, matching=matching, more=more, where=condition)
    return f"{events} ORDER BY {order} LIMIT {maximum}"


def _is_unit(plan: Plan, selector: UnitSelector) -> str:
    conditions = [has_attempt_text(key, text, plan.binder) for key, text in selector.texts.items()]
    if selector.visitors is not None:
        visitors = plan.binder.bind("Array(UInt64)", list(selector.visitors))
        conditions.append(f"{visitor_key(plan)} IN {visitors}")
    if selector.session is not None:
        website_id, session_id = (plan.binder.bind("String", part) for part in selector.session)
        conditions.append(f"events.website_id = {website_id} AND events.session_id = {session_id}")
    if plan.definition.has_composite_attempts:
        conditions.append(f"{unit_key(plan)} != 0")
    return " AND ".join(conditions)
