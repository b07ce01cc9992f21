"""The table `events`, joined with what a statement reads of the events' visitors.

Source: funnel semantics, "Units"; docs/funnels.md, "First and last touch" and "Visitors' traits";
docs/reports.md, "Saved cohorts".
"""

from collections.abc import Sequence

from penstock.base.chunks import chunks
from penstock.funnels.definitions.builtins import TOUCH_COLUMNS, TOUCH_FIELDS, trait_of
from penstock.funnels.definitions.operators import EMPTY_TEXT
from penstock.funnels.statements.query import Known, Plan


def visitor_key(plan: Plan) -> str:
    """Return the canonical visitor of an event."""
    if not plan.profile.has_aliases:
        return "events.visitor_key"
    return "if(aliases.canonical_key = 0, events.visitor_key, aliases.canonical_key)"


SMALL_BLOCKS = f"ARRAY JOIN [''] AS splits ARRAY JOIN [''] AS {EMPTY_TEXT}"
"""Splits the events into blocks of `max_block_size` rows, without changing them.

The engine reads at least a granule of thousands of events as one block, and a limit or a stop waits
for the end of each function on a block. An ARRAY JOIN splits a block. The engine moves a filter
into an ARRAY JOIN that provides its columns, so the filter would precede its split; hence a second
ARRAY JOIN provides the column. Decision 0021 has the measurements.
"""


def all_events(plan: Plan) -> str:
    """Return the events table, in small blocks if a pattern may take long for each event."""
    return f"events {SMALL_BLOCKS}" if plan.definition.has_patterns else "events"


def event_source(plan: Plan) -> str:
    """Return `all_events`, joined with canonical visitors if any visitors were merged."""
    if not plan.profile.has_aliases:
        return all_events(plan)
    return f"""{all_events(plan)} LEFT ANY JOIN ({_aliases(plan)}) AS aliases
        ON events.visitor_key = aliases.visitor_key"""


def _aliases(plan: Plan) -> str:
    """Select the canonical visitor of each merged visitor."""
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    return f"""
        SELECT visitor_key, argMax(canonical_key, version) AS canonical_key FROM visitor_aliases
        WHERE scope_id IN {scopes}{known_merges(plan)} GROUP BY visitor_key"""


def known_merges(plan: Plan) -> str:
    """Whether a merge was known: an expression that starts with AND, or nothing."""
    known = plan.params.known
    return "" if known is None else f" AND version <= {plan.binder.bind('UInt64', known.merge)}"


def known_traits(plan: Plan) -> str:
    """Whether traits were known: an expression that starts with AND, or nothing."""
    known = plan.params.known
    return "" if known is None else f" AND version <= {plan.binder.bind('UInt64', known.traits)}"


def was_known(plan: Plan, known: Known) -> str:
    """Whether an event had been received, and was not stored by a later import."""
    until = plan.binder.bind("Int64", known.received_until_ms)
    before = plan.binder.bind("String", known.before_import)
    return (
        f"(events.received_at <= fromUnixTimestamp64Milli({until}) AND events.import_id < {before})"
    )


def keyed_events(plan: Plan) -> str:
    """Return `event_source`, joined with the traits of visitors if the key of a unit needs them."""
    keys = plan.definition.attempt_keys
    return event_source(plan) + (_traits(plan, False) if any(map(trait_of, keys)) else "")


def joined_events(plan: Plan, *, all_traits: bool = False) -> str:
    """Return `event_source`, joined with the touches, traits and saved cohorts of visitors that the
    funnel reads.

    The touches are the earliest and the latest up to the event's time. all_traits: also join the
    traits that the funnel does not read.
    """
    joins = _traits(plan, all_traits) if all_traits or plan.definition.read_traits else ""
    joins += _cohorts(plan) if plan.definition.read_cohorts else ""
    joins += "".join(
        f"""
    LEFT ASOF JOIN ({_touches(plan, which)}) AS {which}_touches
        ON {visitor_key(plan)} = {which}_touches.visitor_key
        AND events.occurred_at >= {which}_touches.occurred_at"""
        for which in plan.definition.read_touches
    )
    return event_source(plan) + joins


def _traits(plan: Plan, all_traits: bool) -> str:
    """Join each event with the traits of its visitor. Every node of a cluster has all of them."""
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    texts = "texts"
    if not all_traits:
        names = plan.binder.bind("Array(String)", plan.definition.read_traits)
        texts = f"mapFilter((name, text) -> name IN {names}, texts)"
    return f"""
    LEFT ANY JOIN (
        SELECT visitor_key, argMax({texts}, version) AS texts
        FROM visitor_traits WHERE scope_id IN {scopes}{known_traits(plan)} GROUP BY visitor_key
    ) AS traits ON {visitor_key(plan)} = traits.visitor_key"""


_KEYS_PER_TEXT = 5_000
"""A server accepts parameters of up to 131,072 bytes, and a key has up to 20 digits."""


def member_texts(keys: Sequence[int]) -> tuple[str, ...]:
    """Return the keys of visitors as texts, separated by commas.

    The engine reads 100,000 numbers from texts several times faster than from an array.
    """
    return tuple(",".join(map(str, share)) for share in chunks(keys, _KEYS_PER_TEXT))


def _cohorts(plan: Plan) -> str:
    """Join each event with the IDs of the saved cohorts that its visitor is in.

    A cohort has the keys that its visitors had when it was saved. After a merge, they stand for the
    canonical visitor.
    """
    saved = []
    for cohort_id in plan.definition.read_cohorts:
        texts = plan.binder.bind("Array(String)", list(plan.params.members[cohort_id]))
        saved.append(f"""
            SELECT toUInt64(arrayJoin(splitByChar(',', arrayJoin({texts})))) AS visitor_key,
                   {plan.binder.bind("String", cohort_id)} AS id""")
    members, key = f"({' UNION ALL '.join(saved)}) AS members", "members.visitor_key"
    if plan.profile.has_aliases:
        members += f" LEFT ANY JOIN ({_aliases(plan)}) AS merged ON {key} = merged.visitor_key"
        key = f"if(merged.canonical_key = 0, {key}, merged.canonical_key)"
    return f"""
    LEFT ANY JOIN (
        SELECT {key} AS visitor, groupUniqArray(members.id) AS ids FROM {members} GROUP BY visitor
    ) AS saved_cohorts ON {visitor_key(plan)} = saved_cohorts.visitor"""


def _touches(plan: Plan, which: str) -> str:
    """Select each visitor's first touch, or each visitor's last touch in every millisecond."""
    visitor = visitor_key(plan)
    at, group, value = {
        "first": (
            "min(events.occurred_at)",
            visitor,
            "argMin({}, tuple(events.occurred_at, events.event_id))",
        ),
        "last": (
            "events.occurred_at",
            f"{visitor}, events.occurred_at",
            "argMax({}, events.event_id)",
        ),
    }[which]
    columns = sorted({column for _, column in TOUCH_FIELDS.values()})
    values = ", ".join(
        f"{value.format(f'toString(events.{column})')} AS {column}" for column in columns
    )
    is_touch = " OR ".join(f"events.{column} != ''" for column in TOUCH_COLUMNS)
    return f"""
        SELECT {visitor} AS visitor_key, {at} AS occurred_at, {values}
        FROM {event_source(plan)}
        WHERE {event_scope(plan)} AND ({is_touch})
        GROUP BY {group}"""


def is_sent() -> str:
    """Whether a sender sent an event. Penstock itself writes the events of app opens."""
    return """NOT (events.link_method != ''
                    OR (events.source = 'app' AND events.kind = 'event'
                        AND events.name IN ('install', 'open')
                        AND events.session_id = '' AND events.client_event_id = ''))"""


def event_scope(plan: Plan) -> str:
    """Whether an event is in the plan's websites and subset, and not after the evaluation."""
    websites = plan.binder.bind("Array(String)", list(plan.params.website_ids))
    end = f"fromUnixTimestamp64Milli({plan.evaluated_at()})"
    conditions = [f"events.website_id IN {websites}", f"events.occurred_at <= {end}"]
    if plan.subset.after_shipment is not None:
        after = plan.binder.bind("UInt64", plan.subset.after_shipment)
        conditions.append(f"events.shipment > {after}")
    if plan.subset.until_shipment is not None:
        until = plan.binder.bind("UInt64", plan.subset.until_shipment)
        conditions.append(f"events.shipment <= {until}")
    if plan.subset.after_ms is not None:
        after = plan.binder.bind("Int64", plan.subset.after_ms)
        conditions.append(f"events.occurred_at > fromUnixTimestamp64Milli({after})")
    if plan.params.known is not None:
        conditions.append(was_known(plan, plan.params.known))
    return " AND ".join(conditions)
