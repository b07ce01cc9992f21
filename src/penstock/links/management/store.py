"""SQL for managed links. Functions run in the caller's transaction."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from penstock.base.chunks import chunks
from penstock.base.ids import LinkId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.links.model import REVISED, Link, LinkRevision, LinkState
from penstock.metadb.pages import page_of
from penstock.metadb.tables import link_revisions, link_tags, links

_MAX_LISTED_TAGS = 200

_TAGS = (
    select(func.aggregate_strings(link_tags.c.tag, ","))  # tags never contain commas
    .where(link_tags.c.link_id == links.c.id)
    .correlate(links)
    .scalar_subquery()
    .label("tags")
)
_LINKS = select(links, _TAGS)


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
        expires_at_ms=row.expires_at,
        expired_url=row.expired_url,
        revision=row.revision,
        tags=tuple(sorted(row.tags.split(","))) if row.tags else (),
        is_active=row.is_active,
        is_archived=row.is_archived,
        pass_query=row.pass_query,
        unstored_clicks=row.unstored_clicks,
        created_at_ms=row.created_at,
        updated_at_ms=row.updated_at,
    )


def _revision_columns(link: Link) -> dict[str, Any]:
    """Return the columns that links and revisions share."""
    return {name.removesuffix("_ms"): getattr(link, name) for name in REVISED}


def _mutable_columns(link: Link) -> dict[str, Any]:
    """Return all columns whose values can change."""
    return {
        **_revision_columns(link),
        "revision": link.revision,
        # Fold case here, because SQLite folds only ASCII letters.
        "search_text": "\n".join((link.name, link.slug, *link.tags)).casefold(),
        "is_active": link.is_active,
        "is_archived": link.is_archived,
        "pass_query": link.pass_query,
        "updated_at": link.updated_at_ms,
    }


def add_links(db: Connection, added: Sequence[Link]) -> None:
    """Insert links. Raises `StoreConflict` if a slug is taken."""
    if not added:
        return
    fixed = [
        {
            "id": link.id,
            "workspace_id": link.workspace_id,
            "website_id": link.website_id,
            "slug": link.slug,
            "created_at": link.created_at_ms,
        }
        for link in added
    ]
    db.execute(
        insert(links),
        [{**values, **_mutable_columns(link)} for values, link in zip(fixed, added, strict=True)],
    )
    _add_revisions(db, added)
    _add_tags(db, added)


def update_links(db: Connection, changed: Sequence[tuple[Link, Link]]) -> None:
    """Store changed links. changed: pairs of the old and new link, whose rows must be locked."""
    if not changed:
        return
    after = [link for _, link in changed]
    db.execute(
        update(links).where(links.c.id == bindparam("link_id")),
        [{"link_id": link.id, **_mutable_columns(link)} for link in after],
    )
    _add_revisions(db, [link for before, link in changed if link.revision != before.revision])
    retagged = [link for before, link in changed if link.tags != before.tags]
    for chunk in chunks([link.id for link in retagged]):
        db.execute(delete(link_tags).where(link_tags.c.link_id.in_(chunk)))
    _add_tags(db, retagged)


def _add_revisions(db: Connection, revised: Sequence[Link]) -> None:
    rows = [
        {
            "link_id": link.id,
            "number": link.revision,
            "at": link.updated_at_ms,
            **_revision_columns(link),
        }
        for link in revised
    ]
    if rows:
        db.execute(insert(link_revisions), rows)


def _add_tags(db: Connection, tagged: Sequence[Link]) -> None:
    rows = [
        {"link_id": link.id, "tag": tag, "workspace_id": link.workspace_id}
        for link in tagged
        for tag in link.tags
    ]
    if rows:
        db.execute(insert(link_tags), rows)


def link(
    db: Connection, workspace_id: WorkspaceId, link_id: str, *, for_update: bool = False
) -> Link | None:
    """Find a link of the workspace. for_update: whether to lock its row until the transaction
    ends.
    """
    statement = _LINKS.where(links.c.workspace_id == workspace_id, links.c.id == link_id)
    row = db.execute(statement.with_for_update(of=links) if for_update else statement).first()
    return None if row is None else _link(row)


def link_of_id(db: Connection, link_id: str) -> Link | None:
    """Find an active or disabled link of any workspace by its ID."""
    row = db.execute(_LINKS.where(links.c.id == link_id)).first()
    return None if row is None else _link(row)


def link_of_slug(db: Connection, slug: str) -> Link | None:
    """Find an active or disabled link of any workspace by its slug."""
    row = db.execute(_LINKS.where(links.c.slug == slug)).first()
    return None if row is None else _link(row)


def slugs(db: Connection, workspace_id: WorkspaceId, link_ids: Sequence[str]) -> dict[str, str]:
    """Return slugs by link ID, for the links that belong to the workspace."""
    slugs_by_id: dict[str, str] = {}
    for chunk in chunks(link_ids):
        statement = select(links.c.id, links.c.slug).where(
            links.c.workspace_id == workspace_id, links.c.id.in_(chunk)
        )
        slugs_by_id |= {row.id: row.slug for row in db.execute(statement)}
    return slugs_by_id


def links_of_slugs(db: Connection, slugs: Sequence[str]) -> list[Link]:
    """Find links of any workspace by slug, and lock their rows until the transaction ends."""
    stored: list[Link] = []
    for chunk in chunks(slugs):
        statement = _LINKS.where(links.c.slug.in_(chunk)).order_by(links.c.id)
        stored += map(_link, db.execute(statement.with_for_update(of=links)))
    return stored


def links_page(
    db: Connection,
    workspace_id: WorkspaceId,
    page: Page,
    *,
    search: str = "",
    website_id: WebsiteId | None = None,
    state: LinkState | None = None,
    tag: str | None = None,
    now_ms: int,
) -> Listing[Link]:
    """List links, newest first. search: part of the name, slug or a tag; empty matches all.

    Archived links are included only if `state` is `ARCHIVED`.
    """
    statement = _LINKS.where(links.c.workspace_id == workspace_id)
    if search:
        statement = statement.where(
            links.c.search_text.contains(search.casefold(), autoescape=True)
        )
    if website_id is not None:
        statement = statement.where(links.c.website_id == website_id)
    if tag is not None:
        statement = statement.where(
            links.c.id.in_(
                select(link_tags.c.link_id).where(
                    link_tags.c.workspace_id == workspace_id, link_tags.c.tag == tag
                )
            )
        )
    statement = statement.where(*_state_conditions(state, now_ms))
    rows, total = page_of(
        db, statement.order_by(links.c.created_at.desc(), links.c.id.desc()), page
    )
    return Listing([_link(row) for row in rows], page, total)


def _state_conditions(state: LinkState | None, now_ms: int) -> Sequence[ColumnElement[bool]]:
    """Return conditions that select a state, equivalent to `Link.state`. None selects all states
    except archived.
    """
    c = links.c
    if state is LinkState.ARCHIVED:
        return [c.is_archived]
    conditions: list[ColumnElement[bool]] = [~c.is_archived]
    if state is LinkState.DISABLED:
        conditions.append(~c.is_active)
    elif state is LinkState.EXPIRED:
        conditions += [c.is_active, c.expires_at <= now_ms]
    elif state is LinkState.ACTIVE:
        conditions += [c.is_active, or_(c.expires_at.is_(None), c.expires_at > now_ms)]
    return conditions


def tags(db: Connection, workspace_id: WorkspaceId) -> list[str]:
    """Return the workspace's first tags in alphabetical order."""
    c = link_tags.c
    statement = (
        select(c.tag)
        .where(c.workspace_id == workspace_id)
        .distinct()
        .order_by(c.tag)
        .limit(_MAX_LISTED_TAGS)
    )
    return list(db.execute(statement).scalars())


def revision(db: Connection, link_id: str, number: int) -> LinkRevision | None:
    c = link_revisions.c
    row = db.execute(select(link_revisions).where(c.link_id == link_id, c.number == number)).first()
    return None if row is None else _revision(row)


def revisions_page(db: Connection, link_id: LinkId, page: Page) -> Listing[LinkRevision]:
    """List the link's revisions, newest first."""
    c = link_revisions.c
    statement = select(link_revisions).where(c.link_id == link_id).order_by(c.number.desc())
    rows, total = page_of(db, statement, page)
    return Listing([_revision(row) for row in rows], page, total)


def _revision(row: Row[Any]) -> LinkRevision:
    values = {name: row._mapping[name.removesuffix("_ms")] for name in LinkRevision._fields}
    return LinkRevision(**values)
