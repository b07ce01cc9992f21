"""The intake's rows: dedupe keys and the outbox."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import json
from sqlalchemy import Connection, bindparam, delete, select

from penstock.base.ids import EventId, VisitorId
from penstock.identity.model import Alias
from penstock.metadb.rows import insert_rows, select_rows
from penstock.metadb.tables import dedupe_keys, outbox

_CHUNK = 1000

_OLD = select(dedupe_keys.c.key).where(dedupe_keys.c.created_at < bindparam("before")).order_by(dedupe_keys.c.created_at).limit(_CHUNK)


class Target(StrEnum):
    """Tables of the warehouse that the outbox ships to."""

    EVENTS = "events"
    ALIASES = "visitor_aliases"


class Kept(NamedTuple):
    """What a dedupe key remembers of the event that used it first."""

    body_hash: bytes
    event_id: EventId
    visitor_id: VisitorId


def kept(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, Kept]:
    """Which of the keys are used up, and by what."""
    found = select_rows(connection, dedupe_keys, ("key", "body_hash", "event_id", "visitor_id"), {}, "key", keys)
    return {key: Kept(body_hash, event_id, visitor_id) for key, body_hash, event_id, visitor_id in found}


def keep(connection: Connection, used: Mapping[bytes, Kept], now_ms: int) -> None:
    """Use up keys. In the order of the keys, so that two nodes with the same keys wait for each other instead of locking each other out."""
    insert_rows(
        connection, dedupe_keys, ("key", "body_hash", "event_id", "visitor_id", "created_at"),
        [(key, *first, now_ms) for key, first in sorted(used.items())],
    )  # fmt: skip


def put_in_outbox(connection: Connection, event_rows: Sequence[str], aliases: Collection[Alias]) -> None:
    rows = [(Target.ALIASES, json.encode(alias._asdict()).decode()) for alias in aliases]
    rows += [(Target.EVENTS, row) for row in event_rows]
    insert_rows(connection, outbox, ("target", "row"), rows)


def forget_keys(connection: Connection, before_ms: int) -> int:
    """Delete some of the keys that were used before a time; how many. Call again until none is left."""
    keys = connection.execute(_OLD, {"before": before_ms}).scalars().all()
    connection.execute(delete(dedupe_keys).where(dedupe_keys.c.key.in_(keys)))
    return len(keys)
