"""Reads and writes saved funnels, inside the caller's transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    cast,
    delete,
    func,
    insert,
    select,
    true,
)

from penstock.base.ids import GoalId, WorkspaceId
from penstock.base.paging import Page
from penstock.funnels.definitions.revisions import Revision
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.saved.schema import FunnelSort
from penstock.metadb.named import named_page
from penstock.metadb.pages import page_of
from penstock.metadb.tables import funnel_goals, funnel_revisions, funnels, saved_cohorts

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
) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
    """Return a page of funnels, and their total number. search: text that the name must contain.

    folder: only funnels in this folder, '' for funnels in no folder; None for all. by_folder:
    whether to sort by folder first, with the funnels in no folder last.
    """
    is_chosen = true() if folder is None else funnels.c.folder.is_not_distinct_from(folder or None)
    order = (*(_BY_FOLDER if by_folder else ()), *_ORDERS[sort])
    return named_page(db, funnels, workspace_id, page, search, is_chosen, order=order)


def names(db: Connection, workspace_id: WorkspaceId) -> dict[str, str]:
    """Return the names of all funnels by their ID, in alphabetical order."""
    c = funnels.c
    listed = select(c.id, c.name).where(c.workspace_id == workspace_id)
    return {row.id: row.name for row in db.execute(listed.order_by(*_ORDERS[FunnelSort.NAME]))}


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


def add_revision(db: Connection, workspace_id: WorkspaceId, funnel: Mapping[str, Any]) -> None:
    """Add the revision that a funnel's row has now."""
    same = {name: funnel[name] for name in ("revision", "name", "definition")}
    keys = {"workspace_id": workspace_id, "funnel_id": funnel["id"]}
    db.execute(insert(funnel_revisions).values(**keys, **same, created_at=funnel["updated_at"]))


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


def existing_cohorts(
    db: Connection, workspace_id: WorkspaceId, cohort_ids: Iterable[str], *, hold: bool
) -> frozenset[str]:
    """Return those saved cohorts that exist. hold: lock them until the transaction ends."""
    c = saved_cohorts.c
    named = select(c.id).where(
        c.workspace_id == workspace_id, c.id.in_(sorted(set(cohort_ids))), c.is_complete
    )
    return frozenset(db.scalars(named.order_by(c.id).with_for_update(read=True) if hold else named))


def names_of_funnels_with(db: Connection, workspace_id: WorkspaceId, record_id: str) -> list[str]:
    """Return the names of the funnels whose definition contains an ID, in alphabetical order."""
    own = select(funnels.c.name).where(
        funnels.c.workspace_id == workspace_id,
        cast(funnels.c.definition, Text).contains(record_id, autoescape=True),
    )
    return list(db.scalars(own.order_by(funnels.c.name)))
