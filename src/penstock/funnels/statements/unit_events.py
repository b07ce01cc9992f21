"""Every event of chosen units, whether or not it matches a step.

`unit_events` describes the columns.
"""

from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.matching import is_whole_second
from penstock.funnels.statements.providers import TAKES_PART, attempt_visitors
from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.sources import event_scope, keyed_events, visitor_key
from penstock.funnels.statements.unit_keys import unit_key


def owner_of(plan: Plan) -> str:
    """Return the column of `counted` with the key that a unit's events have."""
    return "visitor" if plan.repeats else "unit"


def chosen_columns(plan: Plan) -> str:
    """Return the columns of `counted` that a query over chosen units needs for `unit_events`."""
    return "unit, visitor" if plan.repeats else "unit"


def unit_events(
    plan: Plan, units: str, columns: tuple[str, ...], *, of_visitors: bool
) -> tuple[dict[str, str], str]:
    """Return the relations `chosen` and `owners`, and a query over them for the units' events.

    units: a query that selects units with `chosen_columns` and `columns`. The result has these
    columns, and for each event kind, name, event_id, ts and end_ts (the last millisecond of an
    event's time, which may stand for a whole second). of_visitors: read all events of the attempts'
    visitors, instead of the events that have the attempt's ID. The events of a run are those of its
    visitor.
    """
    more = "".join(f", chosen.{column} AS {column}" for column in columns)
    relations = {"chosen": units}
    events = f"""
        SELECT {unit_key(plan)} AS unit, {visitor_key(plan)} AS visitor,
               events.source = 'provider' AS provider, events.verified AS verified,
               events.event_id AS event_id,
               toString(events.kind) AS kind, toString(events.name) AS name,
               toInt64(toUnixTimestamp64Milli(events.occurred_at)) AS ts,
               {_end_of_time(plan)} AS end_ts
        FROM {keyed_events(plan)} WHERE {event_scope(plan)}"""
    if of_visitors:
        if plan.profile.build is not None:  # stored outcomes come without the relation `matched`
            relations["matched"] = matched_events(plan)
        members = _participating_events(plan, "matched")
        relations["owners"] = f"""
        SELECT DISTINCT members.unit AS unit, members.visitor AS owner{more}
        FROM {members} AS members INNER JOIN chosen ON members.unit = chosen.unit"""
        events = f"SELECT *, visitor AS owner FROM ({events}) WHERE owner != 0"
    else:
        relations["owners"] = f"SELECT unit, {owner_of(plan)} AS owner{more} FROM chosen"
        taking_part = _participating_events(plan, f"({events})")
        events = f"SELECT *, unit AS owner FROM {taking_part} WHERE owner != 0"
    carried = "".join(f", owners.{column} AS {column}" for column in columns)
    return (
        relations,
        f"""
        SELECT owners.unit AS unit, kind, name, event_id, ts, end_ts{carried}
        FROM ({events}) AS later INNER JOIN owners ON later.owner = owners.owner""",
    )


def _end_of_time(plan: Plan) -> str:
    """Return the last millisecond of an event's time. The event need not match a row."""
    if not plan.profile.has_provider_events:
        return "ts"
    return f"if({is_whole_second(plan.binder)}, intDiv(ts, 1000) * 1000 + 999, ts)"


def _participating_events(plan: Plan, events: str) -> str:
    """Remove the payment provider events that don't count in their attempt.

    events: a relation with the columns unit, visitor, provider and verified.
    """
    if not (plan.by_attempt and plan.profile.has_provider_events):
        return events
    visitors = attempt_visitors(plan, "SELECT unit FROM chosen")
    return f"""(
        SELECT candidates.* FROM {events} AS candidates
        LEFT ANY JOIN ({visitors}) AS attempt_visitors ON candidates.unit = attempt_visitors.unit
        WHERE {TAKES_PART})"""
