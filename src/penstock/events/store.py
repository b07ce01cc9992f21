"""The intake's rows: dedupe keys and the outbox."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import json
from sqlalchemy import Connection, delete, func, insert, select, update

from penstock.base.ids import EventId, VisitorId
from penstock.events.model import Target
from penstock.identity.model import Alias
from penstock.metadb.rows import insert_rows, select_rows
from penstock.metadb.tables import dedupe_keys, outbox, spool_files

_CHUNK = 1000
_BUNDLE_CHARS = 256 * 1024

_OLDEST = select(dedupe_keys.c.id, dedupe_keys.c.created_at).order_by(dedupe_keys.c.id).limit(_CHUNK)


class Kept(NamedTuple):
    """What a dedupe key remembers of the event that used it first.

    visitor_id: None once the visitor was deleted; body_hash is empty then. scope_tag: of the visitor's identity scope.
    """

    body_hash: bytes
    event_id: EventId
    visitor_id: VisitorId | None
    scope_tag: int


def kept(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, Kept]:
    """Which of the keys are used up, and by what."""
    found = select_rows(connection, dedupe_keys, ("key", *Kept._fields), {}, "key", keys)
    return {key: Kept(*first) for key, *first in found}


def keep(connection: Connection, used: Mapping[bytes, Kept], now_ms: int) -> None:
    """Use up keys. In the order of the keys, so that two nodes with the same keys wait for each other instead of locking each other out."""
    insert_rows(
        connection, dedupe_keys, ("key", *Kept._fields, "created_at"),
        [(key, *first, now_ms) for key, first in sorted(used.items())],
    )  # fmt: skip


def put_in_outbox(connection: Connection, event_rows: Sequence[str], aliases: Collection[Alias]) -> None:
    """What one commit ships, few large bundles of rows instead of many rows: a third of the intake's time went into those."""
    bundles = [(Target.ALIASES, lines) for lines in _bundles([json.encode(alias._asdict()).decode() for alias in aliases])]
    bundles += [(Target.EVENTS, lines) for lines in _bundles(event_rows)]
    insert_rows(connection, outbox, ("target", "lines"), bundles)


def put_rows_in_outbox(connection: Connection, target: Target, rows: Sequence[str]) -> None:
    """Rows of one table, as JSON objects."""
    insert_rows(connection, outbox, ("target", "lines"), [(target, lines) for lines in _bundles(rows)])


def is_carried(connection: Connection, name: str) -> bool:
    """Whether the rows of a spool's file are in the outbox already, or left it."""
    return connection.execute(select(spool_files.c.name).where(spool_files.c.name == name)).first() is not None


def note_carried(connection: Connection, name: str, gone: Collection[str]) -> None:
    """Remember a spool's file, and forget those that are gone."""
    connection.execute(delete(spool_files).where(spool_files.c.name.in_({name, *gone})))
    connection.execute(insert(spool_files).values(name=name))


def _bundles(rows: Sequence[str]) -> Iterator[str]:
    start = chars = 0
    for place, row in enumerate(rows):
        if chars + len(row) > _BUNDLE_CHARS and place > start:
            yield "\n".join(rows[start:place])
            start, chars = place, 0
        chars += len(row)
    if rows:
        yield "\n".join(rows[start:])


def forget_keys(connection: Connection, before_ms: int) -> bool:
    """Delete some of the oldest keys that were used before a time. Whether there may be more: call again then."""
    oldest = connection.execute(_OLDEST).all()
    old = [key_id for key_id, created_at_ms in oldest if created_at_ms < before_ms]
    connection.execute(delete(dedupe_keys).where(dedupe_keys.c.id.in_(old)))
    return len(old) == _CHUNK


class Newest(NamedTuple):
    """The highest numbers that are given at a moment: of a bundle in the outbox, of a dedupe key. 0: there is none."""

    bundle: int
    key: int


def newest(connection: Connection) -> Newest:
    return Newest(*(connection.execute(select(func.max(table.c.id))).scalar() or 0 for table in (outbox, dedupe_keys)))


class Keys(NamedTuple):
    """Some dedupe keys in their order. ids: of those that were asked for; up_to: how far was read."""

    ids: Sequence[int]
    up_to: int


def keys_of_visitors(connection: Connection, tag: int, visitor_ids: Collection[VisitorId], after: int, up_to: int, most: int) -> Keys:
    """Which of the next dedupe keys belong to some visitors of a scope. after, up_to: numbers of keys. most: how many are read.

    In the order of the primary key: an index by visitor would cost the intake more than a pass over all keys costs a deletion.
    """
    c = dedupe_keys.c
    first: int | None = connection.execute(select(func.min(c.id)).where(c.id > after)).scalar()
    if first is None or first > up_to:
        return Keys((), up_to)
    last = min(first + most - 1, up_to)
    wanted = select(c.id).where(c.id.between(first, last), c.scope_tag == tag, c.visitor_id.in_(visitor_ids))
    return Keys(connection.execute(wanted.order_by(c.id)).scalars().all(), last)


def clear_keys(connection: Connection, key_ids: Sequence[int]) -> None:
    """Let dedupe keys forget whose event they stand for and what it said; a repeat is still recognised."""
    for start in range(0, len(key_ids), _CHUNK):
        some = dedupe_keys.c.id.in_(key_ids[start : start + _CHUNK])
        connection.execute(update(dedupe_keys).where(some).values(visitor_id=None, body_hash=b""))
