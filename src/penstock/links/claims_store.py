"""The SQL of clicks that can be claimed, and of the keys that networks are recognised by. Each function works inside a transaction."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, delete, select, text, update

from penstock.base.ids import ClickId, LinkId, WebsiteId
from penstock.links.agents import Platform
from penstock.links.resolving import Method, StoredClick
from penstock.metadb.rows import insert_rows
from penstock.metadb.tables import link_clicks, match_keys

COLUMNS = (
    "click_id", "website_id", "link_id", "token_hash", "clicked_at", "platform", "os_major", "match_key", "match_until",
    "utm_source", "utm_medium", "utm_campaign", "expires_at",
)  # fmt: skip
_UTM = ("utm_source", "utm_medium", "utm_campaign")
_MOST_CANDIDATES = 20
_ADD_KEY = text("INSERT INTO match_keys (period, key, expires_at) VALUES (:period, :key, :expires_at) ON CONFLICT DO NOTHING")


def _click(row: Row[Any]) -> StoredClick:
    return StoredClick(
        id=ClickId(row.click_id),
        website_id=WebsiteId(row.website_id),
        link_id=LinkId(row.link_id),
        clicked_at_ms=row.clicked_at,
        os_major=row.os_major,
        utm={name: value for name in _UTM if (value := getattr(row, name))},
        claimed_at_ms=row.claimed_at,
        claimed_by=row.claimed_by,
    )


def add_clicks(db: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """rows: the values of `COLUMNS`."""
    insert_rows(db, link_clicks, COLUMNS, rows)


def click(db: Connection, click_id: ClickId) -> StoredClick | None:
    row = db.execute(select(link_clicks).where(link_clicks.c.click_id == click_id)).first()
    return None if row is None else _click(row)


def click_of_token(db: Connection, website_id: WebsiteId, token: str) -> StoredClick | None:
    """token: whatever an app handed over."""
    token_hash = sha256(token.encode()).digest()
    row = db.execute(select(link_clicks).where(link_clicks.c.token_hash == token_hash, link_clicks.c.website_id == website_id)).first()
    return None if row is None else _click(row)


def clicks_of_network(
    db: Connection, website_id: WebsiteId, keys: Sequence[bytes], platform: Platform, after_ms: int
) -> Sequence[StoredClick]:
    """The newest clicks from a network, claimed ones too. keys: what stands for it."""
    c = link_clicks.c
    wanted = select(link_clicks).where(c.website_id == website_id, c.match_key.in_(keys), c.platform == platform, c.clicked_at > after_ms)
    return [_click(row) for row in db.execute(wanted.order_by(c.clicked_at.desc(), c.click_id).limit(_MOST_CANDIDATES))]


def claim(db: Connection, click_id: ClickId, install_id: str, method: Method, now_ms: int) -> bool:
    """Give a click to an install, unless somebody has it: then False."""
    c = link_clicks.c
    claimed = update(link_clicks).where(c.click_id == click_id, c.claimed_by.is_(None))
    return db.execute(claimed.values(claimed_at=now_ms, claimed_by=install_id, claim_method=method)).rowcount == 1


def forget_claimers(db: Connection, click_ids: Sequence[str]) -> None:
    """Clicks stay claimed, but not by whom."""
    c = link_clicks.c
    db.execute(update(link_clicks).where(c.click_id.in_(click_ids), c.claimed_by.is_not(None)).values(claimed_by=""))


def drop_ended(db: Connection, now_ms: int) -> None:
    """Remove what has run out: first how networks are recognised, then whole clicks."""
    c = link_clicks.c
    db.execute(update(link_clicks).where(c.match_until <= now_ms).values(match_key=None, match_until=None))
    db.execute(delete(match_keys).where(match_keys.c.expires_at <= now_ms))
    db.execute(delete(link_clicks).where(c.expires_at <= now_ms))


def key_of(db: Connection, period: int) -> bytes | None:
    return db.execute(select(match_keys.c.key).where(match_keys.c.period == period)).scalar()


def add_key(db: Connection, period: int, key: bytes, expires_at_ms: int) -> None:
    """The first key of a period holds."""
    db.execute(_ADD_KEY, {"period": period, "key": key, "expires_at": expires_at_ms})


def keys_since(db: Connection, period: int) -> Sequence[bytes]:
    return db.execute(select(match_keys.c.key).where(match_keys.c.period >= period).order_by(match_keys.c.period)).scalars().all()
