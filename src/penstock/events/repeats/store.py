"""SQL for event keys, by which repeats are recognised, their origins and their secret.

Keys are hashes, and are stored as two numbers, which take the least space on both databases. There
is no index by visitor, import or time: it would cost the intake more than it saves. So deletions
and the cleanup read all keys, some at a time, in the order of the keys.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    func,
    insert,
    select,
)

from penstock.base.chunks import chunks
from penstock.base.ids import ImportId, VisitorId, packed_id
from penstock.events.repeats.model import EventKey, Origin, event_key, halves, key_of
from penstock.metadb.rows import insert_rows, placeholder, select_rows
from penstock.metadb.tables import event_counts, event_key_secrets, event_keys, event_origins

_C, _O = event_keys.c, event_origins.c
_COLUMNS = ("key_high", "key_low", "number", "body", "origin", "visitor", "event_id")
LAST_KEY = 2**63 - 1
"""The highest first half of a key."""


def secret(connection: Connection) -> str | None:
    """Return the sealed secret that keys the hashes; None if there is none yet."""
    return connection.execute(select(event_key_secrets.c.secret)).scalar()


def add_secret(connection: Connection, sealed: str) -> None:
    """Store the secret. Raises `StoreConflict` if another node was faster."""
    connection.execute(insert(event_key_secrets).values(id=1, secret=sealed))


def find(connection: Connection, keys: Collection[bytes]) -> list[EventKey]:
    """Return the stored ones of the given keys."""
    highs, wanted = [high for high, _ in halves(keys)], {*keys}
    rows = select_rows(connection, event_keys, _COLUMNS, {}, "key_high", highs)
    return [row for row in (event_key(*row) for row in rows) if row.key in wanted]


def add(connection: Connection, rows: Iterable[EventKey]) -> None:
    """Add keys, sorted, so that nodes with the same keys wait instead of deadlocking."""
    rows = list(rows)
    keys = halves(row.key for row in rows)
    values = sorted((*key, *row[1:]) for key, row in zip(keys, rows, strict=True))
    insert_rows(connection, event_keys, _COLUMNS, values)


def add_new(connection: Connection, rows: Mapping[bytes, tuple[int, int, int, bytes]]) -> None:
    """Like `add`, for new events. rows: number, body, origin and visitor by key."""
    values = sorted([(*key, *row) for key, row in zip(halves(rows), rows.values(), strict=True)])
    insert_rows(connection, event_keys, _COLUMNS[:-1], values)


def remove(connection: Connection, keys: Iterable[bytes], up_to: int) -> int:
    """Remove keys with numbers up to `up_to`. Returns how many there were."""
    return _change(connection, "DELETE FROM event_keys", keys, up_to)


def clear(connection: Connection, keys: Iterable[bytes], up_to: int) -> int:
    """Remove visitor and content hash from keys with numbers up to `up_to`, if they have them.

    The keys still recognise repeats. Returns how many there were.
    """
    return _change(connection, "UPDATE event_keys SET visitor = NULL, body = NULL", keys, up_to)


def _change(connection: Connection, change: str, keys: Iterable[bytes], up_to: int) -> int:
    value = placeholder(connection)
    where = f"key_high = {value} AND key_low = {value} AND number <= {value}"
    rows = [(*key, up_to) for key in sorted(halves(keys))]
    return connection.exec_driver_sql(f"{change} WHERE {where}", rows).rowcount if rows else 0


def end_of_slice(connection: Connection, after: int | None, limit: int) -> int:
    """Return up to which first half the next `limit` keys go. after: where the last slice ended."""
    c = _C.key_high
    end = select(c).where(*_beyond(after)).order_by(c, _C.key_low).offset(limit - 1).limit(1)
    last: int | None = connection.execute(end).scalar()
    return LAST_KEY if last is None else last


def expired_keys(connection: Connection, after: int | None, up_to: int, before: int) -> list[bytes]:
    """Return the keys in (after, up_to] whose number is below `before`."""
    return _keys(connection, after, up_to, _C.number < before)


def visitor_keys(
    connection: Connection,
    after: int | None,
    up_to: int,
    scope_tag: int,
    visitor_ids: Sequence[VisitorId],
) -> list[bytes]:
    """Return the keys in (after, up_to] of visitors. scope_tag: tag of their scope."""
    origins = select(_O.number).where(_O.scope_tag == scope_tag)
    keys = list[bytes]()
    for chunk in chunks([packed_id("vis", visitor_id) for visitor_id in visitor_ids]):
        condition = and_(_C.origin.in_(origins), _C.visitor.in_(chunk))
        keys += _keys(connection, after, up_to, condition)
    return keys


def import_keys(
    connection: Connection, after: int | None, up_to: int, import_id: ImportId
) -> list[bytes]:
    """Return the keys in (after, up_to] of an import.

    Keys of deleted visitors are left out, so that the visitors' events are never stored again.
    """
    origins = select(_O.number).where(_O.import_id == import_id)
    condition = and_(_C.origin.in_(origins), _C.visitor.is_not(None))
    return _keys(connection, after, up_to, condition)


def _keys(
    connection: Connection, after: int | None, up_to: int, condition: ColumnElement[bool]
) -> list[bytes]:
    halves = select(_C.key_high, _C.key_low)
    rows = connection.execute(halves.where(*_beyond(after), _C.key_high <= up_to, condition))
    return [key_of(*row) for row in rows]


def _beyond(after: int | None) -> list[ColumnElement[bool]]:
    return [] if after is None else [_C.key_high > after]


def newest_number(connection: Connection) -> int:
    """Return the highest number of all accepted events; 0 if there are none."""
    return connection.execute(select(func.max(event_counts.c.newest_number))).scalar() or 0


def origin_number(connection: Connection, origin: Origin) -> int:
    """Return the number of an origin. Adds it if it is new."""
    same = and_(
        _O.scope_tag == origin.scope_tag, _O.import_id.is_not_distinct_from(origin.import_id)
    )
    known: int | None = connection.execute(select(func.min(_O.number)).where(same)).scalar()
    if known is not None:
        return known
    # Two nodes may add the same origin. Searches then find both numbers.
    new = insert(event_origins).values(**origin._asdict()).returning(_O.number)
    return int(connection.execute(new).scalar_one())


def origins(connection: Connection, numbers: Collection[int]) -> dict[int, Origin]:
    """Return origins by their numbers."""
    rows = connection.execute(
        select(_O.number, _O.scope_tag, _O.import_id).where(_O.number.in_(numbers))
    )
    return {number: Origin(tag, import_id) for number, tag, import_id in rows}
