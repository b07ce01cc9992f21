"""SQL for buffer files and match key secrets. Functions run in the caller's transaction."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from penstock.base.ids import LinkId
from penstock.metadb.tables import click_buffer_files, links, match_keys

_INSERT_SECRET = text(
    "INSERT INTO match_keys (period, key, expires_at) VALUES (:period, :key, :expires_at)"
    " ON CONFLICT DO NOTHING"
)


def is_file_stored(db: Connection, name: str) -> bool:
    """Whether the rows of a buffer file have reached the outbox."""
    stored = select(click_buffer_files).where(click_buffer_files.c.name == name)
    return db.execute(stored).first() is not None


def mark_file_stored(db: Connection, name: str, removed: Collection[str]) -> None:
    """Record that a buffer file's rows are in the outbox, and forget removed files.

    removed: names of removed files.
    """
    db.execute(delete(click_buffer_files).where(click_buffer_files.c.name.in_({name, *removed})))
    db.execute(insert(click_buffer_files).values(name=name))


def add_unstored_clicks(db: Connection, clicks: Mapping[LinkId, int]) -> None:
    """Add to the links' counts of clicks that were not stored. Sorts by ID to prevent deadlocks
    between nodes.
    """
    db.execute(
        update(links)
        .where(links.c.id == bindparam("link_id"))
        .values(unstored_clicks=links.c.unstored_clicks + bindparam("clicks")),
        [{"link_id": link_id, "clicks": number} for link_id, number in sorted(clicks.items())],
    )


def find_match_secret(db: Connection, period: int) -> bytes | None:
    return db.execute(select(match_keys.c.key).where(match_keys.c.period == period)).scalar()


def add_match_secret(db: Connection, period: int, secret: bytes, expires_at_ms: int) -> None:
    """Store the secret of a period, unless another node has already stored one."""
    db.execute(_INSERT_SECRET, {"period": period, "key": secret, "expires_at": expires_at_ms})


def match_secrets_since(db: Connection, period: int) -> Sequence[bytes]:
    c = match_keys.c
    return db.execute(select(c.key).where(c.period >= period).order_by(c.period)).scalars().all()


def delete_expired_match_secrets(db: Connection, now_ms: int) -> None:
    db.execute(delete(match_keys).where(match_keys.c.expires_at <= now_ms))
