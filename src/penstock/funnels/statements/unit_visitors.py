"""The visitors of counted units, and all visitors of a period."""

from penstock.base.paging import Page
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.events import name_scope, period_scope
from penstock.funnels.statements.matching import match_condition
from penstock.funnels.statements.query import DataProfile, Plan, QueryParams, Statement
from penstock.funnels.statements.sources import (
    event_scope,
    event_source,
    joined_events,
    visitor_key,
)
from penstock.funnels.statements.unit_events import owner_of
from penstock.funnels.statements.unit_keys import unit_key
from penstock.funnels.statements.units import UnitConditions, conditions_on


def visitor_keys(counted: CountedUnits, units: UnitConditions, limit: int) -> Statement:
    """Select the keys of the units' visitors, in ascending order. Column: visitor.

    The visitor of an attempt is the canonical visitor of its entry event. If several events are
    tied for the entry, it has the visitors of all of them. limit: maximum number of visitors.
    """
    limited = f"ORDER BY visitor LIMIT {counted.plan.binder.bind('UInt64', limit)}"
    tail = f"SELECT visitor FROM members {limited}"
    return counted.statement(tail, **_members(counted.plan, units))


def visitors_page(counted: CountedUnits, units: UnitConditions, page: Page) -> Statement:
    """Select a page of the units' visitors, ordered by their key.

    Columns: visitor (key), scope_id, visitor_id (canonical), total (on all pages). Visitors: see
    `visitor_keys`.
    """
    plan = counted.plan
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    limit, offset = (plan.binder.bind("UInt64", size) for size in (page.size, page.offset))
    relations = _members(plan, units)
    relations["page"] = f"""
        SELECT visitor, (SELECT count() FROM members) AS total FROM members
        ORDER BY visitor LIMIT {limit} OFFSET {offset}"""
    # A canonical visitor may have no events. In that case, an alias contains its ID.
    names = f"""
        SELECT visitor, any(scope) AS scope_id, any(name) AS visitor_id FROM (
            SELECT events.visitor_key AS visitor, toString(events.scope_id) AS scope,
                   events.visitor_id AS name
            FROM events
            WHERE {event_scope(plan)} AND events.visitor_key IN (SELECT visitor FROM page)
            UNION ALL
            SELECT canonical_key, toString(scope_id), canonical_id FROM visitor_aliases
            WHERE scope_id IN {scopes} AND canonical_key IN (SELECT visitor FROM page))
        GROUP BY visitor"""
    tail = f"""
        SELECT page.visitor AS visitor, names.scope_id AS scope_id, names.visitor_id AS visitor_id,
               page.total AS total
        FROM page INNER JOIN ({names}) AS names ON page.visitor = names.visitor
        ORDER BY visitor"""
    return counted.statement(tail, materialized=("members", "page"), **relations)


def count_visitors_of_units(counted: CountedUnits) -> Statement:
    """Count the visitors of counted units. Column: visitors. Visitors: see `visitor_keys`."""
    tail = "SELECT count() AS visitors FROM members"
    return counted.statement(tail, **_members(counted.plan, UnitConditions()))


def count_visitors(definition: Definition, params: QueryParams, profile: DataProfile) -> Statement:
    """Count the canonical visitors with an event in the period. Column: visitors.

    Of a funnel over attempts, payment events without a verified visitor are left out.
    """
    plan = Plan(definition, params, profile)
    takes_part = "events.source != 'provider' OR events.verified" if plan.by_attempt else "1"
    return Statement(
        f"""
        SELECT uniqExact({visitor_key(plan)}) AS visitors FROM {event_source(plan)}
        WHERE {event_scope(plan)} AND {period_scope(plan)} AND ({takes_part})""",
        plan.binder.values,
    )


def _members(plan: Plan, units: UnitConditions) -> dict[str, str]:
    """Return the relation `members`, with the column visitor, and the relations that it reads."""
    relations, condition = conditions_on(plan, units)
    if not plan.by_attempt:
        visitors = f"SELECT DISTINCT {owner_of(plan)} AS visitor FROM counted WHERE {condition}"
        return {**relations, "members": visitors}
    starts = " OR ".join(match_condition(match, plan) for match in plan.entry_matches)
    source = joined_events(plan) if plan.definition.reads_visitors else event_source(plan)
    entries = f"""
        SELECT {unit_key(plan)} AS unit, {visitor_key(plan)} AS visitor,
               toInt64(toUnixTimestamp64Milli(events.occurred_at)) AS ts
        FROM {source}
        WHERE {event_scope(plan)} AND {name_scope(plan)} AND ({starts}) AND {period_scope(plan)}
          AND (events.source != 'provider' OR events.verified)"""
    return {
        **relations,
        "chosen": f"SELECT unit, entry_ts FROM counted WHERE {condition}",
        "members": f"""
        SELECT DISTINCT entries.visitor AS visitor FROM ({entries}) AS entries
        INNER JOIN chosen ON entries.unit = chosen.unit AND entries.ts = chosen.entry_ts""",
    }
