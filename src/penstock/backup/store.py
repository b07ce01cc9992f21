"""Queries on the metadata DB for backups and checks. Each query runs in the caller's
transaction.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    and_,
    func,
    inspect,
    literal_column,
    null,
    select,
    text,
)

from penstock.base.wording import count_of
from penstock.events.model import Target, scope_tag
from penstock.events.repeats.model import event_id_of, event_key, event_number, visitor_of
from penstock.metadb.tables import (
    dedupe_keys,
    deletion_websites,
    deletions,
    event_counts,
    event_keys,
    event_origins,
    installation,
    links,
    losses,
    metadata,
    outbox,
    quarantine,
    shipments,
    user_links,
    visitors,
    websites,
)

_KEYS_PER_PIECE = 500_000
_MINUTE = event_number(60_000, 0)


class Covered(NamedTuple):
    """The newest event that a deletion covers. key_id: the newest key of an earlier version."""

    number: int
    key_id: int


_NONE = Covered(0, 0)


def installation_id(connection: Connection) -> str | None:
    """Return the installation's ID; None before the first shipment."""
    return connection.execute(select(installation.c.id)).scalar()


def schema_version(connection: Connection) -> str:
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def has_tables(connection: Connection) -> bool:
    return bool(inspect(connection).get_table_names())


def row_counts(connection: Connection) -> dict[str, int]:
    """Count the rows of each table. Omits tables that do not exist in an older schema."""
    existing = set(inspect(connection).get_table_names())
    return {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
        if table.name in existing
    }


def file_errors(connection: Connection) -> list[str]:
    """Return the damage that SQLite finds in its database file."""
    messages = [row[0] for row in connection.execute(text("PRAGMA integrity_check(10)"))]
    broken = [
        f"{table}: row {row} refers to a missing row of {parent}"
        for table, row, parent, _ in connection.execute(text("PRAGMA foreign_key_check"))
    ]
    return [error for error in messages if error != "ok"] + broken


def scopes_of_websites(connection: Connection) -> dict[str, set[str]]:
    """Return the identity scopes of each website, including deleted websites.

    A website can have several: after a change of scope, its earlier events stay in the former
    scope.
    """
    rows = connection.execute(select(websites.c.id, websites.c.scope_id))
    return {website_id: {scope_id, website_id} for website_id, scope_id in rows}


def link_ids(connection: Connection) -> set[str]:
    return set(connection.execute(select(links.c.id)).scalars())


def event_ids_of_keys(connection: Connection) -> Iterator[set[str]]:
    """Yield event IDs in batches: those of all events with a dedupe key whose visitor was not
    deleted. The events of a batch have about the same time.
    """
    deleted = visitors_of_running_deletions(connection)
    batches = chain(_event_ids(connection, deleted), _earlier_event_ids(connection, deleted))
    return filter(None, batches)


def _event_ids(
    connection: Connection, deleted: Mapping[tuple[int, str | None], Covered]
) -> Iterator[set[str]]:
    """Yield the IDs of event keys. No index has their order, so each batch reads all keys."""
    origins = connection.execute(select(event_origins.c.number, event_origins.c.scope_tag))
    scopes = {row.number: row.scope_tag for row in origins}
    c = event_keys.c
    columns = (c.key_high, c.key_low, c.number, c.body, c.origin, c.visitor, c.event_id)
    for first, last in _number_ranges(connection):
        rows = select(*columns).where(c.number.between(first, last), c.visitor.is_not(None))
        keys = (event_key(*row) for row in connection.execute(rows))
        yield {
            event_id_of(key)
            for key in keys
            if key.number > deleted.get((scopes[key.origin], visitor_of(key)), _NONE).number
        }


def _number_ranges(connection: Connection) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of ranges with about `_KEYS_PER_PIECE` keys each."""
    minute = event_keys.c.number // literal_column(str(_MINUTE), BigInteger)
    counts = select(minute, func.count()).group_by(minute).order_by(minute)
    first, keys, last = 0, 0, -1
    for number, count in connection.execute(counts):
        if keys and keys + count > _KEYS_PER_PIECE:
            yield first, last
            first, keys = last + 1, 0
        keys, last = keys + count, (number + 1) * _MINUTE - 1
    if keys:
        yield first, last


def _earlier_event_ids(
    connection: Connection, deleted: Mapping[tuple[int, str | None], Covered]
) -> Iterator[set[str]]:
    """Yield the IDs of the keys that earlier versions stored."""
    last_id, c = 0, dedupe_keys.c
    while True:
        rows = connection.execute(
            select(c.id, c.event_id, c.visitor_id, c.scope_tag)
            .where(c.id > last_id)
            .order_by(c.id)
            .limit(_KEYS_PER_PIECE)
        ).all()
        if not rows:
            return
        last_id = rows[-1][0]
        yield {
            event_id
            for key_id, event_id, visitor_id, scope in rows
            if visitor_id is not None and key_id > deleted.get((scope, visitor_id), _NONE).key_id
        }


def waiting_events(connection: Connection) -> Iterator[str]:
    """Yield rows of events that are not in the event store yet: bundles in the outbox, and the
    quarantine.
    """
    yield from connection.execute(
        select(outbox.c.lines).where(outbox.c.target == Target.EVENTS)
    ).scalars()
    q = quarantine.c
    yield from connection.execute(
        select(q.content).where(q.origin == Target.EVENTS, q.content.is_not(None))
    ).scalars()


def events_deleted_by_period(connection: Connection) -> int:
    """Count the events that deletions of periods removed. Their dedupe keys are kept.

    Includes events that were removed from the event store, and events that were removed from the
    quarantine before they reached it.
    """
    d = deletions.c
    rows = connection.execute(select(d.events_found, d.removed).where(d.to_at.is_not(None)))
    return sum(
        (events or 0) + (removed or {}).get("database", {}).get("quarantined", 0)
        for events, removed in rows
    )


def accepted_losses(connection: Connection) -> int:
    """Count the event rows that operators recorded as lost."""
    rows = select(func.sum(losses.c.rows)).where(losses.c.accepted_at.is_not(None))
    return connection.execute(rows).scalar() or 0


def websites_of_running_deletions(connection: Connection) -> set[str]:
    """Return websites whose catalogue may differ from their events, because a deletion is
    running.
    """
    running = select(deletion_websites.c.website_id).join(
        deletions, deletions.c.id == deletion_websites.c.deletion_id
    )
    return set(connection.execute(running.where(deletions.c.state != "done")).scalars())


def visitors_of_running_deletions(
    connection: Connection,
) -> dict[tuple[int, str | None], Covered]:
    """Return visitors whose events a deletion may have removed before their dedupe keys.

    The result maps (scope tag, visitor ID) to what the newest deletion covers.
    """
    d = deletions.c
    running = (
        select(d.scope_id, d.visitor_ids, d.newest_number, d.key_id)
        .where(d.state != "done")
        .order_by(d.created_at, d.newest_number)
    )
    return {
        (scope_tag(scope_id), visitor_id): Covered(*highest)
        for scope_id, visitor_ids, *highest in connection.execute(running)
        for visitor_id in visitor_ids
    }


def unbalanced_counts(connection: Connection) -> list[str]:
    """Return websites whose event counts do not add up."""
    c = event_counts.c
    parts = c.stored + c.duplicates + c.refused + c.quarantined + c.waiting
    rows = connection.execute(
        select(c.website_id, c.received, parts).where(c.received != parts).order_by(c.website_id)
    )
    return [
        f"website {website_id} received {count_of(received, 'event')}; accounted for: {known:,}"
        for website_id, received, known in rows
    ]


def is_pending(connection: Connection, target: Target) -> bool:
    """Whether merges or traits are waiting for the event store, or a deletion is removing some."""
    waiting = select(outbox.c.id).where(outbox.c.target == target).limit(1)
    running_deletion = select(deletions.c.id).where(deletions.c.state != "done").limit(1)
    return any(
        connection.execute(query).first() is not None for query in (waiting, running_deletion)
    )


def traits(connection: Connection) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (scope, canonical visitor, traits) for each user with traits."""
    c = user_links.c
    rows = connection.execute(
        select(c.scope_id, c.visitor_id, c.traits).where(c.traits.is_not(null()))
    )
    yield from ((row.scope_id, row.visitor_id, row.traits or {}) for row in rows)


def absorbed_visitors(connection: Connection) -> Iterator[tuple[str, str, str]]:
    """Yield (scope, absorbed visitor, canonical visitor) for each merge."""
    c = visitors.c
    rows = connection.execute(
        select(c.scope_id, c.visitor_id, c.canonical_id).where(c.visitor_id != c.canonical_id)
    )
    yield from ((row.scope_id, row.visitor_id, row.canonical_id) for row in rows)


def broken_shipments(connection: Connection) -> list[str]:
    """Return bundles whose shipment is unknown."""
    rows = connection.execute(
        select(outbox.c.id)
        .outerjoin(shipments, shipments.c.id == outbox.c.shipment_id)
        .where(outbox.c.shipment_id.is_not(None), shipments.c.id.is_(None))
    ).scalars()
    return [f"bundle {number} belongs to an unknown shipment" for number in rows]


def broken_user_links(connection: Connection) -> list[str]:
    """Return user links whose visitor is unknown."""
    u, v = user_links.c, visitors.c
    rows = connection.execute(
        select(u.user_id)
        .outerjoin(visitors, and_(v.scope_id == u.scope_id, v.visitor_id == u.visitor_id))
        .where(v.visitor_id.is_(None))
    ).scalars()
    return [f"the visitor of user {user_id} is unknown" for user_id in rows]
