"""SQL of managed links. Functions run in the caller's transaction."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from penstock.base.chunks import chunks
from penstock.base.ids import LinkId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.links.model import Link, LinkState
from penstock.metadb.pages import page_of
from penstock.metadb.tables import links


def _link(row: Row[Any]) -> Link:
    return Link(
        id=LinkId(row.id),
        workspace_id=WorkspaceId(row.workspace_id),
        website_id=WebsiteId(row.website_id),
        name=row.name,
        slug=row.slug,
        destination_path=row.destination_path,
        fallback_url=row.fallback_url,
        utm_source=row.utm_source,
        utm_medium=row.utm_medium,
        utm_campaign=row.utm_campaign,
        is_active=row.is_active,
        created_at_ms=row.created_at,
        updated_at_ms=row.updated_at,
    )


def add_link(db: Connection, link: Link) -> None:
    """Raises `StoreConflict` when the slug is taken."""
    db.execute(
        insert(links).values(
            id=link.id,
            workspace_id=link.workspace_id,
            website_id=link.website_id,
            slug=link.slug,
            name=link.name,
            destination_path=link.destination_path,
            fallback_url=link.fallback_url,
            **link.utm,
            # Case-folded here: SQLite folds ASCII letters only.
            search_text=f"{link.name}\n{link.slug}".casefold(),
            is_active=link.is_active,
            created_at=link.created_at_ms,
            updated_at=link.updated_at_ms,
        )
    )


def link(
    db: Connection, workspace_id: WorkspaceId, link_id: str, *, for_update: bool = False
) -> Link | None:
    """A link of the workspace. for_update: lock the row until the transaction ends."""
    statement = select(links).where(links.c.workspace_id == workspace_id, links.c.id == link_id)
    row = db.execute(statement.with_for_update() if for_update else statement).first()
    return None if row is None else _link(row)


def link_of_id(db: Connection, link_id: str) -> Link | None:
    """A link of any workspace, active or disabled."""
    row = db.execute(select(links).where(links.c.id == link_id)).first()
    return None if row is None else _link(row)


def link_of_slug(db: Connection, slug: str) -> Link | None:
    """A link of any workspace, active or disabled."""
    row = db.execute(select(links).where(links.c.slug == slug)).first()
    return None if row is None else _link(row)


def slugs(db: Connection, workspace_id: WorkspaceId, link_ids: Sequence[str]) -> dict[str, str]:
    """Slugs by ID, of the workspace's links."""
    slugs_by_id: dict[str, str] = {}
    for chunk in chunks(link_ids):
        statement = select(links.c.id, links.c.slug).where(
            links.c.workspace_id == workspace_id, links.c.id.in_(chunk)
        )
        slugs_by_id |= {row.id: row.slug for row in db.execute(statement)}
    return slugs_by_id


def links_page(
    db: Connection,
    workspace_id: WorkspaceId,
    page: Page,
    *,
    search: str,
    website_id: WebsiteId | None,
    state: LinkState | None,
) -> Listing[Link]:
    """Newest first. search: part of the name or slug; empty matches all."""
    statement = select(links).where(links.c.workspace_id == workspace_id)
    if search:
        statement = statement.where(
            links.c.search_text.contains(search.casefold(), autoescape=True)
        )
    if website_id is not None:
        statement = statement.where(links.c.website_id == website_id)
    if state is not None:
        statement = statement.where(links.c.is_active == (state is LinkState.ACTIVE))
    rows, total = page_of(
        db, statement.order_by(links.c.created_at.desc(), links.c.id.desc()), page
    )
    return Listing([_link(row) for row in rows], page, total)


def update_state(db: Connection, link: Link) -> None:
    """Write whether the link is active, the only thing about it that changes."""
    db.execute(
        update(links)
        .where(links.c.id == link.id)
        .values(is_active=link.is_active, updated_at=link.updated_at_ms)
    )
