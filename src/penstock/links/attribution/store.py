"""SQL for claimable clicks, matches and touches. Functions run in the caller's transaction."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel
from sqlalchemy import Connection, Row, delete, insert, select, text, update

from penstock.base.chunks import chunks
from penstock.base.clock import iso
from penstock.base.ids import ClickId, LinkId, ScopeId, VisitorId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.base.user_agent import Platform
from penstock.links.attribution.model import ClaimableClick, Match, Method, Reason
from penstock.links.attribution.schema import (
    MatchedLinkRecord,
    MatchRecord,
    TouchRecord,
    UtmRecord,
)
from penstock.links.model import UTM
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import change_rows, insert_rows, record_values, row_values, select_rows
from penstock.metadb.tables import link_clicks, link_matches, links, visitor_touches

CLICK_COLUMNS = (
    "click_id", "website_id", "link_id", "link_revision", "token_hash", "clicked_at", "platform",
    "os_major", "match_key", "match_until", "utm_source", "utm_medium", "utm_campaign",
    "expires_at",
)  # fmt: skip
_MAX_CANDIDATES = 20

# This works on SQLite and PostgreSQL. It inserts nothing if the visitor has just been deleted.
_INSERT_TOUCH = """
    INSERT INTO visitor_touches
        (scope_id, visitor_id, touch, at, link_id, utm_source, utm_medium, utm_campaign)
    SELECT :scope_id, visitor_id, :touch, :at, :link_id, :utm_source, :utm_medium, :utm_campaign
    FROM visitors WHERE scope_id = :scope_id AND visitor_id = :visitor_id
"""
_INSERT_FIRST_TOUCH = text(f"{_INSERT_TOUCH} ON CONFLICT DO NOTHING")
_UPSERT_LAST_TOUCH = text(f"""
    {_INSERT_TOUCH} ON CONFLICT (scope_id, visitor_id, touch) DO UPDATE SET
        at = excluded.at, link_id = excluded.link_id, utm_source = excluded.utm_source,
        utm_medium = excluded.utm_medium, utm_campaign = excluded.utm_campaign
    WHERE visitor_touches.at <= excluded.at
""")
_LOCK = text("SELECT pg_advisory_xact_lock(:number)")

# Claimable clicks


def add_clicks(db: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Insert clicks. rows: for each click, the values of `CLICK_COLUMNS`."""
    insert_rows(db, link_clicks, CLICK_COLUMNS, rows)


def find_click(db: Connection, click_id: ClickId) -> ClaimableClick | None:
    row = db.execute(select(link_clicks).where(link_clicks.c.click_id == click_id)).first()
    return None if row is None else _click(row)


def find_click_by_token(db: Connection, website_id: WebsiteId, token: str) -> ClaimableClick | None:
    """Find the website's click with this token. token: arbitrary text that an app sent."""
    c = link_clicks.c
    token_hash = sha256(token.encode()).digest()
    row = db.execute(
        select(link_clicks).where(c.token_hash == token_hash, c.website_id == website_id)
    ).first()
    return None if row is None else _click(row)


def clicks_by_match_key(
    db: Connection, website_id: WebsiteId, keys: Sequence[bytes], platform: Platform, after_ms: int
) -> Sequence[ClaimableClick]:
    """Return the latest clicks with one of the match keys, including claimed clicks."""
    c = link_clicks.c
    statement = (
        select(link_clicks)
        .where(
            c.website_id == website_id,
            c.match_key.in_(keys),
            c.platform == platform,
            c.clicked_at > after_ms,
        )
        .order_by(c.clicked_at.desc(), c.click_id)
        .limit(_MAX_CANDIDATES)
    )
    return [_click(row) for row in db.execute(statement)]


def claim_click(
    db: Connection, click_id: ClickId, install_id: str, method: Method, now_ms: int
) -> bool:
    """Claim a click for an install. Returns False if the click is already claimed."""
    c = link_clicks.c
    result = db.execute(
        update(link_clicks)
        .where(c.click_id == click_id, c.claimed_by.is_(None))
        .values(claimed_at=now_ms, claimed_by=install_id, claim_method=method)
    )
    return result.rowcount == 1


def forget_claimers(db: Connection, click_ids: Sequence[str]) -> None:
    """Delete the IDs of the installs that claimed the clicks. The clicks stay claimed."""
    c = link_clicks.c
    db.execute(
        update(link_clicks)
        .where(c.click_id.in_(click_ids), c.claimed_by.is_not(None))
        .values(claimed_by="")
    )


_CLEAN_UP_ROWS = 5_000
"""Maximum number of rows per transaction. Other writers wait for the transaction, and PostgreSQL
stops statements that take too long.
"""


def clear_expired_match_keys(db: Connection, now_ms: int) -> bool:
    """Clear a batch of expired match keys. Returns True if there may be more."""
    c = link_clicks.c
    expired = select(c.click_id).where(c.match_until <= now_ms).limit(_CLEAN_UP_ROWS)
    clear = update(link_clicks).where(c.click_id.in_(expired))
    return db.execute(clear.values(match_key=None, match_until=None)).rowcount == _CLEAN_UP_ROWS


def delete_expired_clicks(db: Connection, now_ms: int) -> bool:
    """Delete a batch of expired clicks. Returns True if there may be more."""
    c = link_clicks.c
    expired = select(c.click_id).where(c.expires_at <= now_ms).limit(_CLEAN_UP_ROWS)
    return db.execute(delete(link_clicks).where(c.click_id.in_(expired))).rowcount == _CLEAN_UP_ROWS


def _click(row: Row[Any]) -> ClaimableClick:
    return ClaimableClick(
        id=ClickId(row.click_id),
        website_id=WebsiteId(row.website_id),
        link_id=LinkId(row.link_id),
        link_revision=row.link_revision,
        clicked_at_ms=row.clicked_at,
        os_major=row.os_major,
        utm={name: value for name in UTM if (value := getattr(row, name))},
        claimed_at_ms=row.claimed_at,
        claimed_by=row.claimed_by,
    )


# Matches


def lock_install(db: Connection, website_id: WebsiteId, install_id: str) -> None:
    """Lock the install until the transaction ends. SQLite allows only one writer anyway."""
    if db.dialect.name == "postgresql":
        digest = blake2b(f"open\0{website_id}\0{install_id}".encode(), digest_size=8).digest()
        db.execute(_LOCK, {"number": int.from_bytes(digest, signed=True)})


def add_matches(db: Connection, matches: Sequence[Match]) -> None:
    db.execute(insert(link_matches), [row_values(match, link_matches) for match in matches])


def is_listed(db: Connection, match: Match) -> bool:
    """Whether an earlier first open of the install already had this outcome for the same link."""
    c = link_matches.c
    statement = select(c.id).where(
        c.website_id == match.website_id,
        c.install_id == match.install_id,
        c.first_open,
        c.link_id.is_not_distinct_from(match.link_id),
        c.click_id.is_not_distinct_from(match.click_id),
        c.method.is_not_distinct_from(match.method),
        c.reason.is_not_distinct_from(match.reason),
    )
    return db.execute(statement.limit(1)).first() is not None


def find_first_match(db: Connection, website_id: WebsiteId, install_id: str) -> Match | None:
    """Return the earliest match among the install's first opens; None if there is none."""
    c = link_matches.c
    statement = select(link_matches).where(
        c.website_id == website_id, c.install_id == install_id, c.matched, c.first_open
    )
    row = db.execute(statement.order_by(c.at, c.id).limit(1)).first()
    return None if row is None else _match(row)


def matches_page(
    db: Connection,
    workspace_id: WorkspaceId,
    page: Page,
    *,
    website_id: WebsiteId | None = None,
    link_id: LinkId | None = None,
) -> Listing[MatchRecord]:
    """List matches, newest first."""
    c = link_matches.c
    statement = (
        select(link_matches, links.c.slug)
        .outerjoin(links, links.c.id == c.link_id)
        .where(c.workspace_id == workspace_id)
    )
    if website_id is not None:
        statement = statement.where(c.website_id == website_id)
    if link_id is not None:
        statement = statement.where(c.link_id == link_id)
    return listing_of(db, statement.order_by(c.at.desc(), c.id.desc()), page, _match_record)


def delete_matches_before(db: Connection, before_ms: int) -> bool:
    """Delete a batch of matches older than `before_ms`. Returns True if there may be more."""
    c = link_matches.c
    old = select(c.id).where(c.at < before_ms).limit(_CLEAN_UP_ROWS)
    return db.execute(delete(link_matches).where(c.id.in_(old))).rowcount == _CLEAN_UP_ROWS


def _match_record(row: Row[Any]) -> MatchRecord:
    link = MatchedLinkRecord(id=row.link_id, slug=row.slug) if row.slug else None
    return MatchRecord.from_object(row, link=link)


def _match(row: Row[Any]) -> Match:
    values = record_values(row, Match._fields)
    values["method"] = row.method and Method(row.method)
    values["reason"] = row.reason and Reason(row.reason)
    return Match(**values)


# Touches


def add_touch(
    db: Connection,
    scope_id: ScopeId,
    visitor_id: VisitorId,
    link_id: LinkId,
    utm: Mapping[str, str],
    at_ms: int,
) -> None:
    """Store a touch as the first if there is none, and as the last unless a later one exists."""
    values = {"scope_id": scope_id, "visitor_id": visitor_id, "at": at_ms, "link_id": link_id}
    values |= {name: utm.get(name) for name in UTM}
    db.execute(_INSERT_FIRST_TOUCH, values | {"touch": "first"})
    db.execute(_UPSERT_LAST_TOUCH, values | {"touch": "last"})


def touches_of_visitors(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> tuple[list[TouchRecord], list[TouchRecord]]:
    """Return the visitors' first touches and last touches."""
    c = visitor_touches.c
    touches: dict[str, list[TouchRecord]] = {"first": [], "last": []}
    for chunk in chunks(visitor_ids):
        in_chunk = (c.scope_id == scope_id, c.visitor_id.in_(chunk))
        for row in db.execute(select(visitor_touches).where(*in_chunk)):
            utm = UtmRecord.from_utm(row._mapping)
            touches[row.touch].append(TouchRecord.from_object(row, utm=utm))
    return touches["first"], touches["last"]


def visitor_opens(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of the visitors' touches and app opens, each with its kind."""
    m, t = link_matches.c, visitor_touches.c
    rows: list[tuple[str, dict[str, Any]]] = []
    for chunk in chunks(visitor_ids):
        touches = select(
            t.visitor_id, t.touch, t.at, t.link_id, t.utm_source, t.utm_medium, t.utm_campaign
        ).where(t.scope_id == scope_id, t.visitor_id.in_(chunk))
        opens = select(
            *(m.visitor_id, m.website_id, m.at, m.link_id, m.click_id, m.clicked_at, m.matched),
            *(m.method, m.platform, m.os_version, m.app_version, m.first_open, m.install_id),
        ).where(m.scope_id == scope_id, m.visitor_id.in_(chunk))
        for kind, query in (("touch", touches), ("open", opens)):
            rows += [(kind, _readable(row)) for row in db.execute(query)]
    return rows


def _readable(row: Row[Any]) -> dict[str, Any]:
    """Convert a row to the API's field names, with times in ISO 8601."""
    return {
        to_camel(name): iso(value) if name in ("at", "clicked_at") and value else value
        for name, value in row._mapping.items()
    }


class ForgottenOpens(NamedTuple):
    """Number of changed rows of each kind. click_ids: the clicks that the visitors claimed."""

    click_ids: list[str]
    touches: int
    opens: int


def forget_visitors(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> ForgottenOpens:
    """Delete the visitors' touches, and clear the visitor and install IDs in their matches."""
    where, column = {"scope_id": scope_id}, "visitor_id"
    touches = change_rows(db, "DELETE FROM visitor_touches", where, column, visitor_ids)
    columns = ("click_id", "matched")
    matches = select_rows(db, link_matches, columns, where, column, visitor_ids)
    click_ids = [click_id for click_id, matched in matches if matched and click_id is not None]
    clear = "UPDATE link_matches SET visitor_id = NULL, install_id = NULL"
    opens = change_rows(db, clear, where, column, visitor_ids)
    return ForgottenOpens(click_ids, touches, opens)
