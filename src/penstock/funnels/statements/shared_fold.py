"""Lets each shard of a cluster fold its units, instead of the server that received the query.

Each shard sends its matching events to the shards of their units, which keep them in the table
`exchanged`. Then each shard folds its units with the same relations as the whole statement, whose
relation `matched` reads `exchanged` instead of `events`. The queried server adds up the rows.

A server may be down, or return, between the two statements. So each shard also sends a marker to
each shard, on the same connection as its events, with the number of events that the sender has
stored. If a shard lacks a marker or the markers count too few events, the fold fails, and the whole
statement must be run instead.
"""

from collections.abc import Mapping

from penstock.funnels.statements.equal_times import reads_texts
from penstock.funnels.statements.events import matched_events, number_of
from penstock.funnels.statements.packed import combine_hashes
from penstock.funnels.statements.query import UNUSABLE, Plan
from penstock.funnels.statements.sources import event_scope
from penstock.warehouse.cluster import EXCHANGED, Shards

WORTH_SHARING = 2_000_000
"""Minimum number of events for a shared fold. It saves memory, but takes an additional statement.
"""
_MAX_BREADTH = 3
_LISTS = {"met": "Array(UInt8)", "compared": "Array(UInt64)"}
"""Types of columns that are sent as texts, because empty lists would take eight bytes each."""
_EXCHANGE = "{exchange:UInt64}"


def shards_of(plan: Plan) -> Shards | None:
    """Return the shards that can share the fold of a plan; None if they cannot or need not.

    They cannot if the matching of an event, or whether it takes part in its unit, depends on events
    of other shards.
    """
    profile, definition = plan.profile, plan.definition
    reads_others = (
        definition.finds_first_times
        or definition.read_touches
        or (definition.attempt_keys and profile.has_provider_events)
    )
    can_share = (
        profile.build is None
        and not reads_others
        and plan.params.known is None
        and plan.mask_type == EXCHANGED["mask"]
        and plan.breadth <= _MAX_BREADTH
    )
    return profile.shards if can_share and profile.events >= WORTH_SHARING else None


def send_events(plan: Plan, shards: Shards) -> str:
    """Return the statement with which each shard sends its matching events and its markers."""
    columns = _columns(plan)
    sent = [f"toString({name})" if name in _LISTS else name for name in columns]
    nothing = {name: f"defaultValueOfTypeName('{EXCHANGED[name]}')" for name in columns}
    marker = {**nothing, "unit": "target", "ts": "stored"}
    marked = ", ".join(f"{value} AS {name}" for name, value in marker.items())
    rows = f"""
    SELECT {_EXCHANGE} AS exchange, {", ".join(sent)} FROM ({matched_events(plan)})
    UNION ALL
    SELECT {_EXCHANGE} AS exchange, {marked}
    FROM (SELECT toInt64(count()) AS stored FROM events WHERE {event_scope(plan)})
    ARRAY JOIN CAST(range({shards.number}), 'Array(UInt64)') AS target"""
    return f"""
    INSERT INTO exchanged (exchange, {", ".join(columns)})
    SELECT * FROM {shards.read(rows)}"""


def shared_relations(plan: Plan, relations: Mapping[str, str]) -> dict[str, str]:
    """Return the relations that a shard needs to fold its units. Those of other breakdowns than by
    entry do not read `entry_values`.

    relations: those of the whole statement, up to its units.
    """
    columns = _columns(plan)
    constants = {
        "visitor": "unit",
        "provider": "toUInt8(0)",
        "coarse": "toUInt8(0)",
        "seq": f"toUInt64({UNUSABLE})",
        "number_sent": "toUInt8(0)",
    }
    received = [
        f"CAST(exchanged.{name}, '{_LISTS[name]}') AS {name}" if name in _LISTS else name
        for name in columns
    ]
    others = [f"{sql} AS {name}" for name, sql in constants.items() if name not in columns]
    own = {
        "matched": f"""
    SELECT {", ".join([*received, *others])}, {number_of("seq")} AS number,
           seq = {UNUSABLE} AND number_sent AS invalid
    FROM exchanged WHERE exchange = {_EXCHANGE} AND mask != 0"""
    }
    if plan.breadth:
        keys = [f"key_{j}" for j in range(1, plan.breadth + 1)]
        own["entry_values"] = f"""
    SELECT {combine_hashes(keys)} AS value, any([{", ".join(keys)}]) AS keys,
           CAST([], 'Array(String)') AS texts
    FROM matched WHERE {plan.overlaps("mask", plan.entry_bits)} GROUP BY value"""
    return {**relations, **own}


def is_complete(plan: Plan, shards: Shards) -> str:
    """Return a condition that holds, or fails if a shard may lack an event of the profile."""
    stored = plan.binder.bind("Int64", plan.profile.events)
    is_incomplete = f"count() != {shards.number} OR sum(ts) < {stored}"
    return f"""0 IN (
        SELECT throwIf({is_incomplete}) FROM exchanged WHERE exchange = {_EXCHANGE} AND mask = 0)"""


def _columns(plan: Plan) -> list[str]:
    """Return the columns of `exchanged` that the plan's folds read."""
    numbers = range(1, plan.breadth + 1)
    columns = ["unit", "ts", "event_id", "mask"]
    if plan.definition.attempt_keys:
        columns.append("visitor")
    if plan.has_whole_seconds:
        columns.append("coarse")
    if plan.definition.sequence_property is not None:
        columns += ["seq", "number_sent"]
    columns += [f"key_{j}" for j in numbers]
    if reads_texts(plan):
        columns += [f"text_{j}" for j in numbers]
    if plan.has_entry_filters:
        columns += ["met", "compared", "passes"]
    return columns
