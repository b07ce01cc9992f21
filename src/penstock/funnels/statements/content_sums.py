"""Statements that sum up the content of what a report reads, so that a change shows later.

The canonical form of an event is a text: for each field in `EVENT_FIELDS` its length in bytes, a
colon and its text. It has no ID that storing the event has given it, so a copy has the same sum.
docs/receipts.md describes the form for other programs.
"""

from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.query import Known, Plan, Statement
from penstock.funnels.statements.sources import (
    event_scope,
    event_source,
    known_merges,
    known_traits,
    visitor_key,
    was_known,
)

FORM = 1
"""Version of the canonical form. It changes with `EVENT_FIELDS` and the texts of the fields."""
EVENT_FIELDS = (
    "kind", "name", "occurred_at", "stated_at", "source", "verified", "visitor_id", "user_id",
    "client_event_id", "session_id", "external_session_id", "path", "url", "title", "referrer",
    "referrer_host", "country", "region", "device", "os", "browser", "utm_source", "utm_medium",
    "utm_campaign", "utm_content", "utm_term", "link", "link_method", "properties",
)  # fmt: skip
_TIMES = ("occurred_at", "stated_at")
_MAX_ARRIVALS = 500


def content_sums(plan: Plan, key: tuple[int, int], max_rows: int) -> Statement:
    """Sum up the content of the events, the merges and the traits that the plan reads.

    key: keys the hashes. Columns: part, website, day, number and sum, a decimal number modulo
    2^128. part: `events`, with a row for each website and UTC day of the period and its last
    window; `earlier`, with the number of each website's events before them; `merges`, the visitors
    of these events that count as others; `traits`, those whose traits the funnel reads. Returns at
    most `max_rows` + 1 rows.
    """
    merges, traits = f"({_merges(plan)})", f"({_used_traits(plan)})"
    hashed_traits = (
        "arrayConcat([visitor_id], arrayFlatten("
        "arraySort(arrayMap((name, text) -> [name, text], mapKeys(texts), mapValues(texts)))))"
    )
    parts = [
        f"""
        SELECT 'events' AS part, events.website_id::String AS website, {_day("occurred_at")} AS day,
               count() AS number, {_sum(plan.binder, key, _event_texts())} AS sum
        FROM events WHERE {event_scope(plan)} AND {_in_span(plan)} GROUP BY website, day""",
        f"""
        SELECT 'merges', '', '', count(), {_sum(plan.binder, key, "[visitor_id, canonical_id]")}
        FROM {merges} WHERE canonical_id != visitor_id""",
    ]
    if plan.params.start_ms is not None:
        parts.append(f"""
        SELECT 'earlier', events.website_id::String AS website, '', count(), toUInt128(0)
        FROM events WHERE {event_scope(plan)} AND events.occurred_at < {_start(plan)}
        GROUP BY website""")
    if plan.definition.read_traits:
        parts.append(f"""
        SELECT 'traits', '', '', count(), {_sum(plan.binder, key, hashed_traits)}
        FROM {traits} WHERE notEmpty(texts)""")
    sql = f"""
        SELECT part, website, day, number, toString(sum) AS sum FROM ({" UNION ALL ".join(parts)})
        ORDER BY part, website, day LIMIT {max_rows + 1}"""
    return Statement(sql, plan.binder.values)


def newest_versions(plan: Plan) -> Statement:
    """Return the versions of the newest merge and of the newest traits of the plan's scopes."""
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    return Statement(
        f"""SELECT
            (SELECT max(version) FROM visitor_aliases WHERE scope_id IN {scopes}) AS merge,
            (SELECT max(version) FROM visitor_traits WHERE scope_id IN {scopes}) AS traits""",
        plan.binder.values,
    )


def arrivals(plan: Plan, known: Known) -> Statement:
    """Group the events that were not known, up to the end of the period's last window.

    Columns: arrival (`late`: in the period or its windows; `next`: the same, after the last known
    time; `earlier`: before the period), import (its ID), received (UTC day), events, first and last
    (UTC days of their times). The groups with the most events come first.
    """
    until = plan.binder.bind("Int64", known.received_until_ms)
    start = "0" if plan.params.start_ms is None else f"events.occurred_at < {_start(plan)}"
    return Statement(
        f"""
        SELECT multiIf({start}, 'earlier',
                       events.occurred_at > fromUnixTimestamp64Milli({until}), 'next',
                       'late') AS arrival,
               events.import_id::String AS import, {_day("received_at")} AS received,
               count() AS events, {_day("occurred_at", "min")} AS first,
               {_day("occurred_at", "max")} AS last
        FROM events
        WHERE {event_scope(plan)} AND NOT {was_known(plan, known)} AND ({start} OR {_in_span(plan)})
        GROUP BY arrival, import, received ORDER BY events DESC, received LIMIT {_MAX_ARRIVALS}""",
        plan.binder.values,
    )


def changed_visitors(plan: Plan, known: Known) -> Statement:
    """Count the visitors of the plan's events whose merges or used traits changed afterwards.

    Traits whose earlier values are lost count as changed.

    Columns: merged, separated, traits.
    """
    merge = plan.binder.bind("UInt64", known.merge)
    version = plan.binder.bind("UInt64", known.traits)
    traits = "0"
    if plan.definition.read_traits:
        earlier = f"version <= {version}"
        traits = f"(SELECT countIf(texts != earlier) FROM ({_used_traits(plan, earlier)}))"
    return Statement(
        f"""
        SELECT countIf(newest > {merge} AND canonical_id != visitor_id) AS merged,
               countIf(newest > {merge} AND canonical_id = visitor_id) AS separated,
               {traits} AS traits
        FROM ({_merges(plan)})""",
        plan.binder.values,
    )


def _event_texts() -> str:
    texts = (
        f"toString(toUnixTimestamp64Milli(events.{name}))"
        if name in _TIMES
        else f"toString(events.{name})"
        for name in EVENT_FIELDS
    )
    return f"[{', '.join(texts)}]"


def _sum(binder: Binder, key: tuple[int, int], texts: str) -> str:
    """Return the sum of the keyed hashes of texts. It overflows, so it is modulo 2^128."""
    first, last = (binder.bind("UInt64", half) for half in key)
    form = (
        f"arrayStringConcat(arrayMap(text -> concat(toString(length(text)), ':', text), {texts}))"
    )
    digest = f"sipHash128ReferenceKeyed(({first}, {last}), {form})"
    return f"sumWithOverflow(reinterpretAsUInt128({digest}))"


def _day(column: str, function: str = "") -> str:
    return f"toString(toDate32({function}(events.{column}), 'UTC'))"


def _in_span(plan: Plan) -> str:
    """Whether an event is in the period, or in a window of a unit that entered in it."""
    start_ms, end_ms = plan.params.start_ms, plan.params.end_ms
    if start_ms is None or end_ms is None:
        return "1"
    conditions = [f"events.occurred_at >= {_start(plan)}"]
    if plan.window_ms is not None:
        last = plan.binder.bind("Int64", end_ms + plan.window_ms)
        conditions.append(f"events.occurred_at <= fromUnixTimestamp64Milli({last})")
    return " AND ".join(conditions)


def _start(plan: Plan) -> str:
    return f"fromUnixTimestamp64Milli({plan.binder.bind('Int64', plan.params.start_ms)})"


def _merges(plan: Plan) -> str:
    """Select the newest merge of each visitor as sent who has an event in the span."""
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    return f"""
        SELECT visitor_id, argMax(canonical_id, version) AS canonical_id, max(version) AS newest
        FROM visitor_aliases
        WHERE scope_id IN {scopes}{known_merges(plan)} AND visitor_key IN (
            SELECT events.visitor_key FROM events
            WHERE {event_scope(plan)} AND {_in_span(plan)})
        GROUP BY scope_id, visitor_key, visitor_id"""


def _used_traits(plan: Plan, condition: str = "1") -> str:
    """Select the traits that the funnel reads of each visitor who has an event in the span, and as
    `earlier` those that meet a condition.
    """
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    names = plan.binder.bind("Array(String)", plan.definition.read_traits)
    used = f"mapFilter((name, text) -> name IN {names}, texts)"
    return f"""
        SELECT visitor_id, argMax({used}, version) AS texts,
               argMaxIf({used}, version, {condition}) AS earlier
        FROM visitor_traits
        WHERE scope_id IN {scopes}{known_traits(plan)} AND visitor_key IN (
            SELECT {visitor_key(plan)} FROM {event_source(plan)}
            WHERE {event_scope(plan)} AND {_in_span(plan)})
        GROUP BY scope_id, visitor_key, visitor_id"""
