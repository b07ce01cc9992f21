"""SQL for managed links. Functions run in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import fields
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
from penstock.links.management.schema import LinkRevisionRecord
from penstock.links.model import REVISED, Link, LinkState
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.rows import record_values, row_values
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
    values = record_values(row, (field.name for field in fields(Link)))
    return Link(**values | {"tags": tuple(sorted(row.tags.split(","))) if row.tags else ()})


def _revision_columns(link: Link) -> dict[str, Any]:
    """Return the columns that links and revisions share."""
    return {name.removesuffix("_ms"): getattr(link, name) for name in REVISED}


def _columns(link: Link) -> dict[str, Any]:
    """Return all columns, except the count that clicks change at the same time."""
    # Fold case here, because SQLite folds only ASCII letters.
    search_text = "\n".join((link.name, link.slug, *link.tags)).casefold()
    values = row_values(link, links, without=("search_text", "unstored_clicks"))
    return values | {"search_text": search_text}


def add_links(db: Connection, added: Sequence[Link]) -> None:
    """Insert links. Raises `StoreConflict` if a slug is taken."""
    if not added:
        return
    db.execute(insert(links), [_columns(link) for link in added])
    _add_revisions(db, added)
    _add_tags(db, added)


def update_links(db: Connection, changed: Sequence[tuple[Link, Link]]) -> None:
    """Store changed links. changed: pairs of the old and new link, whose rows must be locked."""
    if not changed:
        return
    after = [link for _, link in changed]
    db.execute(
        update(links).where(links.c.id == bindparam("link_id")),
        [{"link_id": link.id, **_columns(link)} for link in after],
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
    return listing_of(db, statement.order_by(*newest_first(links)), page, _link)


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


def revision(db: Connection, link_id: str, number: int) -> dict[str, Any]:
    """Return the fields that a link had at an earlier revision; empty if it is not stored."""
    c = link_revisions.c
    row = db.execute(select(link_revisions).where(c.link_id == link_id, c.number == number)).first()
    return {} if row is None else {**record_values(row, REVISED), "revision": number}


def revisions_page(db: Connection, link_id: LinkId, page: Page) -> Listing[LinkRevisionRecord]:
    """List the link's revisions, newest first."""
    c = link_revisions.c
    statement = select(link_revisions).where(c.link_id == link_id).order_by(c.number.desc())
    return listing_of(db, statement, page, _revision_record)


def _revision_record(row: Row[Any]) -> LinkRevisionRecord:
    return LinkRevisionRecord.from_object(row, revision=row.number)
