"""Rows of deletions, and of what each touches of its websites."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, and_, func, insert, or_, select, update

from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.deletions.model import Deletion, DeletionSpan, Found, State, Step, Target
from penstock.metadb.pages import page_of
from penstock.metadb.tables import deletion_websites, deletions

_OPEN = (State.QUEUED, State.RUNNING)
_LISTS = ("visitor_ids", "open_imports")


def add(connection: Connection, deletion: Deletion, website_ids: Collection[WebsiteId]) -> None:
    """website_ids: those that it may touch."""
    connection.execute(insert(deletions).values(_columns(deletion)))
    connection.execute(insert(deletion_websites), [{"deletion_id": deletion.id, "website_id": website_id} for website_id in website_ids])


def save(connection: Connection, deletion: Deletion) -> None:
    """How far it is now."""
    connection.execute(update(deletions).where(deletions.c.id == deletion.id).values(_columns(deletion)))


def save_found(connection: Connection, deletion: Deletion, found: Mapping[WebsiteId, Found]) -> None:
    """What it touches of its websites; of those that are not in `found`, nothing."""
    c = deletion_websites.c
    connection.execute(
        update(deletion_websites).where(c.deletion_id == deletion.id).values(events=0, first_event_at=None, last_event_at=None)
    )
    for website_id, (events, first_ms, last_ms) in found.items():
        touched = update(deletion_websites).where(c.deletion_id == deletion.id, c.website_id == website_id)
        connection.execute(touched.values(events=events, first_event_at=first_ms, last_event_at=last_ms))


def found_so_far(connection: Connection, deletion: Deletion) -> dict[WebsiteId, Found | None]:
    """The websites that it may touch, with what it was found to touch of each; None: nothing, or not counted yet."""
    c = deletion_websites.c
    rows = connection.execute(select(c.website_id, c.events, c.first_event_at, c.last_event_at).where(c.deletion_id == deletion.id))
    return {WebsiteId(site): Found(events, first_ms, last_ms) if events else None for site, events, first_ms, last_ms in rows}


def _columns(deletion: Deletion) -> dict[str, Any]:
    return {
        (f"{name[:-3]}_at" if name in ("from_ms", "to_ms") else name.removesuffix("_ms")): value for name, value in asdict(deletion).items()
    }


def _deletion(row: Row[Any]) -> Deletion:
    told = {(f"{name}_ms" if name.endswith("_at") else name): value for name, value in row._mapping.items()}
    told["from_ms"], told["to_ms"] = told.pop("from_at_ms"), told.pop("to_at_ms")
    told |= {name: tuple(told[name]) for name in _LISTS}
    told |= {"target": Target(row.target), "state": State(row.state), "step": row.step and Step(row.step)}
    return Deletion(**told)


def find(connection: Connection, workspace_id: WorkspaceId, deletion_id: str) -> Deletion | None:
    row = connection.execute(select(deletions).where(deletions.c.id == deletion_id, deletions.c.workspace_id == workspace_id)).first()
    return None if row is None else _deletion(row)


def page(connection: Connection, workspace_id: WorkspaceId, website_id: str | None, asked: Page) -> Listing[Deletion]:
    """Newest first."""
    wanted = select(deletions).where(deletions.c.workspace_id == workspace_id)
    if website_id is not None:
        wanted = wanted.where(deletions.c.website_id == website_id)
    rows, total = page_of(connection, wanted.order_by(deletions.c.created_at.desc(), deletions.c.id.desc()), asked)
    return Listing([_deletion(row) for row in rows], asked, total)


def any_open(connection: Connection) -> bool:
    """Whether a deletion of any workspace is not done."""
    return connection.execute(select(deletions.c.id).where(deletions.c.state.in_(_OPEN)).limit(1)).first() is not None


def open_deletions(connection: Connection) -> list[Deletion]:
    """Those that are not done, oldest first, of every workspace."""
    still_open = select(deletions).where(deletions.c.state.in_(_OPEN)).order_by(deletions.c.created_at, deletions.c.id)
    return [_deletion(row) for row in connection.execute(still_open)]


def spans(connection: Connection, workspace_id: WorkspaceId, websites: Collection[WebsiteId]) -> list[DeletionSpan]:
    """What deletions touched of these websites, oldest first. Of one that has not counted yet: all that it may touch."""
    d, w = deletions.c, deletion_websites.c
    touched = (
        select(
            w.website_id,
            func.coalesce(w.first_event_at, d.from_at, 0),
            func.coalesce(w.last_event_at, d.to_at - 1, d.created_at),
            d.created_at,
            d.state,
        )
        .join_from(deletion_websites, deletions, d.id == w.deletion_id)
        .where(d.workspace_id == workspace_id, w.website_id.in_(websites))
        .where(or_(w.events > 0, and_(w.events.is_(None), d.state != State.DONE)))
        .order_by(d.created_at, d.id, w.website_id)
    )
    return [
        DeletionSpan(WebsiteId(site), from_ms, to_ms, at_ms, State(state))
        for site, from_ms, to_ms, at_ms, state in connection.execute(touched)
    ]
