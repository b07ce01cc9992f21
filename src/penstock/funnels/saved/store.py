"""Reads and writes saved funnels, inside the caller's transaction."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    true,
    update,
)

from penstock.base.clock import iso
from penstock.base.ids import FunnelId, GoalId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.revisions import Revision
from penstock.funnels.definitions.schema import FunnelRecord, SavedDefinition
from penstock.funnels.saved.schema import FunnelSort
from penstock.metadb.pages import name_contains, page_of
from penstock.metadb.tables import funnel_goals, funnel_revisions, funnels

_FUNNEL = select(funnels).where(
    funnels.c.workspace_id == bindparam("workspace"), funnels.c.id == bindparam("funnel")
)


def _funnel(row: Row[*tuple[Any, ...]]) -> FunnelRecord:
    return FunnelRecord(
        **row.definition,
        id=row.id,
        name=row.name,
        folder=row.folder,
        revision=row.revision,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def add_funnel(
    db: Connection,
    workspace_id: WorkspaceId,
    funnel_id: FunnelId,
    name: str,
    folder: str | None,
    definition: SavedDefinition,
    now_ms: int,
) -> None:
    db.execute(
        insert(funnels).values(
            id=funnel_id,
            workspace_id=workspace_id,
            name=name,
            folder=folder,
            definition=definition.model_dump(mode="json"),
            revision=1,
            created_at=now_ms,
            updated_at=now_ms,
        )
    )


def funnel(
    db: Connection, workspace_id: WorkspaceId, funnel_id: str, *, hold: bool = False
) -> FunnelRecord | None:
    """Read a funnel. hold: whether to lock its row until the transaction ends."""
    parameters = {"workspace": workspace_id, "funnel": funnel_id}
    row = db.execute(_FUNNEL.with_for_update() if hold else _FUNNEL, parameters).first()
    return None if row is None else _funnel(row)


_ORDERS: Mapping[FunnelSort, tuple[ColumnElement[Any], ...]] = {
    FunnelSort.CREATED: (funnels.c.created_at.desc(), funnels.c.id.desc()),
    FunnelSort.UPDATED: (funnels.c.updated_at.desc(), funnels.c.id.desc()),
    FunnelSort.NAME: (func.lower(funnels.c.name), funnels.c.id),
}


def funnels_page(
    db: Connection,
    workspace_id: WorkspaceId,
    page: Page,
    search: str,
    sort: FunnelSort = FunnelSort.CREATED,
    folder: str | None = None,
    *,
    by_folder: bool = False,
) -> Listing[FunnelRecord]:
    """Return a page of funnels. search: text that the name must contain.

    folder: only funnels in this folder, '' for funnels in no folder; None for all. by_folder:
    whether to sort by folder first, with the funnels in no folder last.
    """
    is_chosen = true() if folder is None else funnels.c.folder.is_not_distinct_from(folder or None)
    matching = select(funnels).where(
        funnels.c.workspace_id == workspace_id, name_contains(funnels.c.name, search), is_chosen
    )
    order = (*(_BY_FOLDER if by_folder else ()), *_ORDERS[sort])
    rows, total = page_of(db, matching.order_by(*order), page)
    return Listing([_funnel(row) for row in rows], page, total)


_BY_FOLDER = (funnels.c.folder.is_(None), func.lower(funnels.c.folder), funnels.c.folder)


def folders(db: Connection, workspace_id: WorkspaceId, limit: int) -> dict[str | None, int]:
    """Return the number of funnels in each folder, in alphabetical order.

    limit: maximum number of folders. The key None stands for funnels in no folder.
    """
    of_workspace = (
        select(funnels.c.folder, func.count().label("funnels"))
        .where(funnels.c.workspace_id == workspace_id)
        .group_by(funnels.c.folder)
        .order_by(*_BY_FOLDER)
        .limit(limit)
    )
    return {row.folder: row.funnels for row in db.execute(of_workspace)}


def move_funnel(
    db: Connection, workspace_id: WorkspaceId, funnel_id: str, folder: str | None, now_ms: int
) -> None:
    db.execute(
        update(funnels)
        .where(funnels.c.workspace_id == workspace_id, funnels.c.id == funnel_id)
        .values(folder=folder, updated_at=now_ms)
    )


def change_funnel(
    db: Connection,
    funnel_id: str,
    name: str,
    folder: str | None,
    definition: SavedDefinition,
    revision: int,
    now_ms: int,
) -> None:
    db.execute(
        update(funnels)
        .where(funnels.c.id == funnel_id)
        .values(
            name=name,
            folder=folder,
            definition=definition.model_dump(mode="json"),
            revision=revision,
            updated_at=now_ms,
        )
    )


def add_revision(
    db: Connection, workspace_id: WorkspaceId, funnel_id: str, revision: Revision
) -> None:
    db.execute(
        insert(funnel_revisions).values(
            funnel_id=funnel_id,
            revision=revision.number,
            workspace_id=workspace_id,
            name=revision.name,
            definition=revision.definition.model_dump(mode="json"),
            created_at=revision.created_at_ms,
        )
    )


def revision(
    db: Connection, workspace_id: WorkspaceId, funnel_id: str, number: int
) -> Revision | None:
    row = db.execute(
        _revisions(workspace_id, funnel_id).where(funnel_revisions.c.revision == number)
    ).first()
    return None if row is None else _revision(row)


def revisions_page(
    db: Connection, workspace_id: WorkspaceId, funnel_id: str, page: Page
) -> tuple[list[Revision], int]:
    """Return a page of revisions, newest first, and the total number."""
    rows, total = page_of(
        db, _revisions(workspace_id, funnel_id).order_by(funnel_revisions.c.revision.desc()), page
    )
    return [_revision(row) for row in rows], total


def _revisions(workspace_id: WorkspaceId, funnel_id: str) -> Select[*tuple[Any, ...]]:
    return select(funnel_revisions).where(
        funnel_revisions.c.workspace_id == workspace_id, funnel_revisions.c.funnel_id == funnel_id
    )


def _revision(row: Row[*tuple[Any, ...]]) -> Revision:
    return Revision(
        row.revision, row.name, SavedDefinition.model_validate(row.definition), row.created_at
    )


def save_goal_uses(db: Connection, funnel_id: str, goal_ids: Iterable[GoalId]) -> None:
    """Replace the list of goals that a funnel uses."""
    db.execute(delete(funnel_goals).where(funnel_goals.c.funnel_id == funnel_id))
    if uses := [{"funnel_id": funnel_id, "goal_id": goal_id} for goal_id in goal_ids]:
        db.execute(insert(funnel_goals), uses)


def delete_funnel(db: Connection, funnel_id: str) -> None:
    """Delete a funnel, its revisions and its uses of goals."""
    db.execute(delete(funnels).where(funnels.c.id == funnel_id))
