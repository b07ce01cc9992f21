"""Statements that measure the keys of events that could be the attempt ID of a funnel.

They read the events that match a step. Of many events, they examine a share of the visitors and of
the attempts, chosen by hashes.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from penstock.funnels.definitions.filters import MAX_KEY_BYTES
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.query import Plan, Statement
from penstock.funnels.statements.relations import with_relations
from penstock.funnels.statements.row_events import in_windows
from penstock.funnels.statements.unit_keys import unit_key

Keys = tuple[str, ...]
"""The keys of an attempt ID. No keys stand for visitors."""

MS_PER_HOUR = 3_600_000
_MAX_NAMES = 200
_MAX_EVENTS, _MAX_MEASURED = 50_000, 100_000
"""About how many events are read for names of properties, and are measured for each candidate."""
_MAX_UNIT_EVENTS, _MAX_UNIT_VISITORS = 1_000, 5
_PAUSE_MS = 86_400_000
_OPAQUE = r"^[0-9A-Za-z_.:+=~-]{1,128}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"


def parts_of(events: int) -> int:
    """Return into how many equal parts attempts and visitors are divided, of which `measure` reads
    one. events: the number of step events.
    """
    return 1 + events // _MAX_MEASURED


def step_hours(plan: Plan) -> Statement:
    """Count the events of steps by hour, the latest first. Columns: start_ms, events."""
    start = f"intDiv(ts, {MS_PER_HOUR}) * {MS_PER_HOUR}"
    sql = f"""SELECT {start} AS start_ms, count() AS events FROM ({_steps(plan)})
              GROUP BY start_ms ORDER BY start_ms DESC"""
    return Statement(sql, plan.binder.values)


def opaque_properties(plan: Plan, events: int) -> Statement:
    """List the properties of step events whose values are strings or integers that could be IDs.

    events: the number of step events. Columns: name, with_id (events with such a value), values,
    and of_most (events with the most frequent value).
    """
    names = f"""
        SELECT pair.1 AS name, pair.2 AS value, count() AS events
        FROM (SELECT arrayJoin(JSONExtractKeysAndValuesRaw(properties)) AS pair FROM steps)
        WHERE length(name) BETWEEN 1 AND {MAX_KEY_BYTES} AND NOT startsWith(name, '$')
              AND (match(value, '^-?[0-9]+$') OR match(trim(BOTH '"' FROM value), '{_OPAQUE}')
                       AND startsWith(value, '"') AND NOT match(substring(value, 2), '{_TIME}'))
        GROUP BY name, value"""
    steps = _steps(plan, {"properties": "events.properties"}, share=1 + events // _MAX_EVENTS)
    tail = f"""
        SELECT name, sum(events) AS with_id, count() AS values, max(events) AS of_most
        FROM names GROUP BY name ORDER BY with_id DESC, name LIMIT {_MAX_NAMES}"""
    return Statement(with_relations({"steps": steps, "names": names}, tail), plan.binder.values)


def measure(plan: Plan, candidates: Sequence[Keys], events: int) -> Statement:
    """Measure each candidate.

    Columns: candidate (its position, from 1). Of all step events: with_id, entries,
    entries_with_id, later (events of other steps), later_with_id. Of a share of attempts: attempts
    (those with an entry), own_entries, own_later (their events), several_entries, connected (later
    events in the window after the entry), runs (journeys: another begins with an entry after the
    last step or after a pause of a day), several_visitors, joined (visitors of these attempts). Of
    a share of visitors: visitors, split (those with several IDs).
    """
    entry, last = plan.steps[0].all, plan.steps[-1].all
    is_entry = plan.overlaps("mask", entry)
    ids = ", ".join(_unit(plan, keys) for keys in candidates)
    steps = _steps(plan, {"ids": f"[{ids}]"})
    every = plan.binder.bind("UInt64", parts_of(events))
    is_inside = "1"
    if plan.window_ms is not None:  # A visitor, the first candidate, may enter again.
        is_inside = f"(candidate = 1 OR e.1 <= first_ms + {plan.window_ms})"
    relations = {
        "steps": f"""SELECT ids, visitor, ts, mask, {is_entry} AS is_entry,
                            {plan.overlaps("mask", last)} AND NOT is_entry AS is_last
                     FROM ({steps})""",
        "shares": """
            SELECT position AS candidate, countIf(id != 0) AS with_id, countIf(is_entry) AS entries,
                   countIf(is_entry AND id != 0) AS entries_with_id,
                   countIf(NOT is_entry) AS later,
                   countIf(NOT is_entry AND id != 0) AS later_with_id
            FROM steps ARRAY JOIN ids AS id, arrayEnumerate(ids) AS position GROUP BY candidate""",
        "units": f"""
            SELECT position AS candidate, id,
                   groupArraySorted({_MAX_UNIT_EVENTS})((ts, NOT is_entry, is_last)) AS own,
                   groupUniqArray({_MAX_UNIT_VISITORS})(visitor) AS visitors
            FROM steps ARRAY JOIN ids AS id, arrayEnumerate(ids) AS position
            WHERE id != 0 AND intHash64(id) % {every} = 0 GROUP BY candidate, id""",
        "attempts": f"""
            SELECT candidate, visitors, length(visitors) > 1 AS has_several,
                   arrayCount(e -> NOT e.2, own) AS entries,
                   arrayFirst(e -> NOT e.2, own).1 AS first_ms,
                   arrayCount(e -> e.2, own) AS later,
                   entries = 0 ? 0 : arrayCount(
                       e -> e.2 AND e.1 >= first_ms AND {is_inside}, own) AS connected,
                   entries = 0 ? 0 : 1 + arrayCount(
                       (e, before) -> NOT e.2 AND (before.3 OR e.1 - before.1 > {_PAUSE_MS}),
                       arrayPopFront(own), arrayPopBack(own)) AS runs
            FROM units""",
        "of_attempts": """
            SELECT candidate, countIf(entries > 0) AS attempts, sum(entries) AS own_entries,
                   sum(later) AS own_later, countIf(entries > 1) AS several_entries,
                   sum(connected) AS connected, sum(runs) AS runs,
                   countIf(has_several) AS several_visitors,
                   uniqExactArrayIf(visitors, has_several) AS joined
            FROM attempts GROUP BY candidate""",
        "of_visitors": f"""
            SELECT candidate, count() AS visitors, countIf(ids > 1) AS split
            FROM (
                SELECT position AS candidate, visitor, uniqExact(id) AS ids
                FROM steps ARRAY JOIN ids AS id, arrayEnumerate(ids) AS position
                WHERE id != 0 AND intHash64(visitor) % {every} = 0 GROUP BY candidate, visitor)
            GROUP BY candidate""",
    }
    tail = """
        SELECT * FROM shares LEFT ANY JOIN of_attempts USING candidate
                             LEFT ANY JOIN of_visitors USING candidate ORDER BY candidate"""
    return Statement(with_relations(relations, tail, {"steps"}), plan.binder.values)


def _steps(plan: Plan, more: dict[str, str] | None = None, share: int = 1) -> str:
    """Select the events of required steps that can take part in an attempt. share: one of this many
    parts of visitors.
    """
    where = f"{in_windows(plan)} AND (events.source != 'provider' OR events.verified)"
    every = plan.binder.bind("UInt64", share)
    columns = ", ".join(("ts", "mask", "visitor", *(more or {})))
    return f"""SELECT {columns} FROM ({matched_events(plan, more=more, where=where)})
               WHERE {plan.overlaps("mask", plan.required)} AND intHash64(visitor) % {every} = 0"""


def _unit(plan: Plan, keys: Keys) -> str:
    """Return the attempt of an event by these keys; 0 if it lacks one."""
    keyed, unit = copy(plan), CountingUnit.ATTEMPT if keys else CountingUnit.VISITOR
    keyed.definition = replace(plan.definition, counting_unit=unit, attempt_keys=keys)
    return unit_key(keyed)
