"""The SQL of matches and touches. Each function works inside the transaction of the connection that it is given."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, text, update

from penstock.base.ids import LinkId, ScopeId, VisitorId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.links.matches import Listed, Match, Touch
from penstock.links.resolving import Method, Reason
from penstock.metadb.pages import page_of
from penstock.metadb.tables import link_matches, links, visitor_touches

_IDS_AT_ONCE = 500

# The same words on SQLite and PostgreSQL. Of a visitor that a deletion took away meanwhile, nothing is remembered.
_FIRST = text("""
    INSERT INTO visitor_touches (scope_id, visitor_id, touch, at, link_id, utm_source, utm_medium, utm_campaign)
    SELECT :scope_id, visitor_id, 'first', :at, :link_id, :utm_source, :utm_medium, :utm_campaign
    FROM visitors WHERE scope_id = :scope_id AND visitor_id = :visitor_id
    ON CONFLICT DO NOTHING
""")
_LAST = text("""
    INSERT INTO visitor_touches (scope_id, visitor_id, touch, at, link_id, utm_source, utm_medium, utm_campaign)
    SELECT :scope_id, visitor_id, 'last', :at, :link_id, :utm_source, :utm_medium, :utm_campaign
    FROM visitors WHERE scope_id = :scope_id AND visitor_id = :visitor_id
    ON CONFLICT (scope_id, visitor_id, touch) DO UPDATE SET at = excluded.at, link_id = excluded.link_id,
        utm_source = excluded.utm_source, utm_medium = excluded.utm_medium, utm_campaign = excluded.utm_campaign
    WHERE visitor_touches.at <= excluded.at
""")


def _columns(match: Match) -> dict[str, Any]:
    return {name.removesuffix("_ms"): value for name, value in match._asdict().items()}


def _match(row: Row[Any]) -> Match:
    told = {name: row._mapping[name.removesuffix("_ms")] for name in Match._fields}
    told |= {"method": row.method and Method(row.method), "reason": row.reason and Reason(row.reason)}
    return Match(**told)


def add(db: Connection, matches: Sequence[Match]) -> None:
    db.execute(insert(link_matches), [_columns(match) for match in matches])


def earlier(db: Connection, website_id: WebsiteId, install_id: str) -> Match | None:
    """The match of an install's first open."""
    c = link_matches.c
    mine = select(link_matches).where(c.website_id == website_id, c.install_id == install_id, c.matched, c.first_open)
    row = db.execute(mine.order_by(c.at, c.id).limit(1)).first()
    return None if row is None else _match(row)


def page(
    db: Connection, workspace_id: WorkspaceId, asked: Page, *, website_id: WebsiteId | None = None, link_id: LinkId | None = None
) -> Listing[Listed]:
    """Newest first."""
    c = link_matches.c
    wanted = select(link_matches, links.c.slug).outerjoin(links, links.c.id == c.link_id).where(c.workspace_id == workspace_id)
    if website_id is not None:
        wanted = wanted.where(c.website_id == website_id)
    if link_id is not None:
        wanted = wanted.where(c.link_id == link_id)
    rows, total = page_of(db, wanted.order_by(c.at.desc(), c.id.desc()), asked)
    return Listing([Listed(_match(row), row.slug) for row in rows], asked, total)


def drop_before(db: Connection, before_ms: int) -> None:
    db.execute(delete(link_matches).where(link_matches.c.at < before_ms))


def touch(db: Connection, scope_id: ScopeId, visitor_id: VisitorId, link_id: LinkId, utm: Mapping[str, str], at_ms: int) -> None:
    """Write what led a visitor here: as the first touch unless there is one, as the last unless there is a later one."""
    told = {"scope_id": scope_id, "visitor_id": visitor_id, "at": at_ms, "link_id": link_id}
    told |= {name: utm.get(name) for name in ("utm_source", "utm_medium", "utm_campaign")}
    db.execute(_FIRST, told)
    db.execute(_LAST, told)


def touches(db: Connection, scope_id: ScopeId, visitor_ids: Collection[VisitorId]) -> tuple[list[Touch], list[Touch]]:
    """First and last touches of some visitors."""
    c = visitor_touches.c
    rows = db.execute(select(visitor_touches).where(c.scope_id == scope_id, c.visitor_id.in_(visitor_ids))).all()
    told = [(row.touch, Touch(row.at, row.link_id, row.utm_source, row.utm_medium, row.utm_campaign)) for row in rows]
    return [one for which, one in told if which == "first"], [one for which, one in told if which == "last"]


def forget_visitors(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> list[str]:
    """Remove the touches of some visitors, and from their matches whose they were. The clicks that they claimed."""
    m, t = link_matches.c, visitor_touches.c
    click_ids: list[str] = []
    for start in range(0, len(visitor_ids), _IDS_AT_ONCE):
        some = visitor_ids[start : start + _IDS_AT_ONCE]
        db.execute(delete(visitor_touches).where(t.scope_id == scope_id, t.visitor_id.in_(some)))
        theirs = (m.scope_id == scope_id, m.visitor_id.in_(some))
        click_ids += db.execute(select(m.click_id).where(*theirs, m.matched, m.click_id.is_not(None))).scalars().all()
        db.execute(update(link_matches).where(*theirs).values(visitor_id=None, install_id=None))
    return click_ids
