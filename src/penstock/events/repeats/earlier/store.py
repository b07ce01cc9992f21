"""SQL for dedupe keys, the keys that earlier versions stored."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, select, update

from penstock.base.chunks import chunks
from penstock.base.ids import EventId, ImportId, VisitorId
from penstock.events.repeats.earlier.model import EarlierKey
from penstock.events.repeats.model import DedupeRecord, body_number
from penstock.metadb.rows import change_rows, select_rows
from penstock.metadb.tables import dedupe_keys

_C = dedupe_keys.c
_RECORD = ("body_hash", "event_id", "visitor_id", "created_at", "import_id")
_ANY = select(_C.id).limit(1)


class FoundKeys(NamedTuple):
    """ids: IDs of keys, in order. up_to: the last ID that was read."""

    ids: Sequence[int]
    up_to: int


def any_left(connection: Connection) -> bool:
    return connection.execute(_ANY).first() is not None


def find(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, DedupeRecord]:
    """Return the stored records for the given dedupe keys."""
    rows = select_rows(connection, dedupe_keys, ("key", *_RECORD), {}, "key", keys)
    return {key: _record(*record) for key, *record in rows}


def _record(
    body_hash: bytes,
    event_id: str,
    visitor_id: str | None,
    created_at_ms: int,
    import_id: str | None,
) -> DedupeRecord:
    return DedupeRecord(
        body_number(body_hash) if body_hash else None,
        EventId(event_id),
        None if visitor_id is None else VisitorId(visitor_id),
        created_at_ms,
        None if import_id is None else ImportId(import_id),
    )


def remove(connection: Connection, keys: Collection[bytes]) -> None:
    change_rows(connection, "DELETE FROM dedupe_keys", {}, "key", sorted(keys))


def following(
    connection: Connection, key_id: int, limit: int, *, lock: bool = False
) -> list[EarlierKey]:
    """Return the next keys with higher IDs. lock: whether to lock them until the transaction
    ends.
    """
    columns = [_C[name] for name in ("id", "key", "scope_tag", *_RECORD)]
    query = select(*columns).where(_C.id > key_id).order_by(_C.id).limit(limit)
    if lock:
        query = query.with_for_update()
    return [
        EarlierKey(key_id, key, scope_tag, _record(*record))
        for key_id, key, scope_tag, *record in connection.execute(query)
    ]


def remove_by_id(connection: Connection, key_ids: Sequence[int]) -> int:
    return change_rows(connection, "DELETE FROM dedupe_keys", {}, "id", key_ids)


def highest_id(connection: Connection) -> int:
    """Return the highest ID of a key; 0 if there are none."""
    return connection.execute(select(func.max(_C.id))).scalar() or 0


def visitor_keys(
    connection: Connection,
    tag: int,
    visitor_ids: Collection[VisitorId],
    after: int,
    up_to: int,
    limit: int,
) -> FoundKeys:
    """Find the visitors' keys among the next `limit` keys with IDs in (after, up_to].

    tag: tag of the visitors' identity scope.
    """
    condition = and_(_C.scope_tag == tag, _C.visitor_id.in_(visitor_ids))
    return _find(connection, condition, after, up_to, limit)


def import_keys(
    connection: Connection, import_id: ImportId, after: int, up_to: int, limit: int
) -> FoundKeys:
    """Find the import's keys among the next `limit` keys with IDs in (after, up_to].

    Keys of deleted visitors are left out, so that the visitors' events are never stored again.
    """
    condition = and_(_C.import_id == import_id, _C.visitor_id.is_not(None))
    return _find(connection, condition, after, up_to, limit)


def _find(
    connection: Connection, condition: ColumnElement[bool], after: int, up_to: int, limit: int
) -> FoundKeys:
    first: int | None = connection.execute(select(func.min(_C.id)).where(_C.id > after)).scalar()
    if first is None or first > up_to:
        return FoundKeys((), up_to)
    last = min(first + limit - 1, up_to)
    ids = select(_C.id).where(_C.id.between(first, last), condition)
    return FoundKeys(connection.execute(ids.order_by(_C.id)).scalars().all(), last)


def clear(connection: Connection, key_ids: Sequence[int]) -> int:
    """Remove the visitor and the content hash from keys. The keys still recognise repeats.

    Returns how many there were.
    """
    number = 0
    for chunk in chunks(key_ids):
        cleared = update(dedupe_keys).where(_C.id.in_(chunk)).values(visitor_id=None, body_hash=b"")
        number += connection.execute(cleared).rowcount
    return number
