"""The SQL of saved funnels. Each function works inside the transaction of the connection that it is given."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from penstock.base.clock import iso
from penstock.base.ids import FunnelId, GoalId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.records import FunnelRecord, SavedDefinition
from penstock.metadb.pages import page_of
from penstock.metadb.tables import funnel_goals, funnels


def _funnel(row: Row[*tuple[Any, ...]]) -> FunnelRecord:
    return FunnelRecord(
        **row.definition,
        id=row.id,
        name=row.name,
        revision=row.revision,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def add_funnel(db: Connection, workspace_id: WorkspaceId, funnel_id: FunnelId, name: str, definition: SavedDefinition, now_ms: int) -> None:
    db.execute(
        insert(funnels).values(
            id=funnel_id,
            workspace_id=workspace_id,
            name=name,
            definition=definition.model_dump(mode="json"),
            revision=1,
            created_at=now_ms,
            updated_at=now_ms,
        )
    )


def funnel(db: Connection, workspace_id: WorkspaceId, funnel_id: str, *, hold: bool = False) -> FunnelRecord | None:
    """hold: keep others from changing it until the transaction ends."""
    statement = select(funnels).where(funnels.c.workspace_id == workspace_id, funnels.c.id == funnel_id)
    row = db.execute(statement.with_for_update() if hold else statement).first()
    return None if row is None else _funnel(row)


def funnels_page(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[FunnelRecord]:
    """Newest first."""
    mine = select(funnels).where(funnels.c.workspace_id == workspace_id)
    rows, total = page_of(db, mine.order_by(funnels.c.created_at.desc(), funnels.c.id.desc()), page)
    return Listing([_funnel(row) for row in rows], page, total)


def change_funnel(db: Connection, funnel_id: str, name: str, definition: SavedDefinition, revision: int, now_ms: int) -> None:
    db.execute(
        update(funnels)
        .where(funnels.c.id == funnel_id)
        .values(name=name, definition=definition.model_dump(mode="json"), revision=revision, updated_at=now_ms)
    )


def note_goals(db: Connection, funnel_id: str, goal_ids: Iterable[GoalId]) -> None:
    """Write down which goals the funnel uses, in place of those that it used before."""
    db.execute(delete(funnel_goals).where(funnel_goals.c.funnel_id == funnel_id))
    if uses := [{"funnel_id": funnel_id, "goal_id": goal_id} for goal_id in goal_ids]:
        db.execute(insert(funnel_goals), uses)


def delete_funnel(db: Connection, workspace_id: WorkspaceId, funnel_id: str) -> bool:
    """Whether there was one to delete. Its uses of goals go with it."""
    result = db.execute(delete(funnels).where(funnels.c.workspace_id == workspace_id, funnels.c.id == funnel_id))
    return result.rowcount > 0
