"""Reads and writes goals, inside the caller's transaction."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, Row, delete, insert, select, update

from penstock.base.clock import iso
from penstock.base.ids import GoalId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.schema import GoalRecord, SavedMatch
from penstock.metadb.named import named_page, named_record
from penstock.metadb.tables import funnel_goals, funnels, goals


def _goal(row: Row[*tuple[object, ...]]) -> GoalRecord:
    return GoalRecord(
        id=row.id,
        name=row.name,
        match=row.match,
        revision=row.revision,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def add_goal(
    db: Connection,
    workspace_id: WorkspaceId,
    goal_id: GoalId,
    name: str,
    match: SavedMatch,
    now_ms: int,
) -> None:
    """Add a goal. Raises `StoreConflict` if the workspace already has a goal with this name."""
    db.execute(
        insert(goals).values(
            id=goal_id,
            workspace_id=workspace_id,
            name=name,
            match=match.model_dump(),
            revision=1,
            created_at=now_ms,
            updated_at=now_ms,
        )
    )


def goal(
    db: Connection, workspace_id: WorkspaceId, goal_id: str, *, hold: bool = False
) -> GoalRecord | None:
    """Read a goal. hold: whether to lock it until the transaction ends, so that no new funnel can
    use it.
    """
    row = named_record(db, goals, workspace_id, goal_id, hold=hold)
    return None if row is None else _goal(row)


def goals_page(
    db: Connection, workspace_id: WorkspaceId, page: Page, search: str
) -> Listing[GoalRecord]:
    """Return a page of goals, newest first. search: text that the name must contain."""
    rows, total = named_page(db, goals, workspace_id, page, search)
    return Listing([_goal(row) for row in rows], page, total)


def goals_by_name(db: Connection, workspace_id: WorkspaceId) -> Mapping[str, GoalRecord]:
    """Return all goals of the workspace, by name."""
    return {
        row.name: _goal(row)
        for row in db.execute(select(goals).where(goals.c.workspace_id == workspace_id))
    }


def hold_goals(
    db: Connection, workspace_id: WorkspaceId, names: Iterable[str]
) -> Mapping[str, GoalId]:
    """Lock the goals with these names against changes until the transaction ends.

    Returns the IDs of the goals that exist, by name.
    """
    named = select(goals.c.name, goals.c.id).where(
        goals.c.workspace_id == workspace_id, goals.c.name.in_(list(names))
    )
    return {
        row.name: GoalId(row.id)
        for row in db.execute(named.order_by(goals.c.id).with_for_update(read=True))
    }


def change_goal(
    db: Connection, goal_id: str, name: str, match: SavedMatch, revision: int, now_ms: int
) -> None:
    """Change a goal. Raises `StoreConflict` if another goal of the workspace has this name."""
    changed = {
        "name": name,
        "match": match.model_dump(),
        "revision": revision,
        "updated_at": now_ms,
    }
    db.execute(update(goals).where(goals.c.id == goal_id).values(changed))


def delete_goal(db: Connection, goal_id: str) -> None:
    db.execute(delete(goals).where(goals.c.id == goal_id))


def goal_uses(
    db: Connection, workspace_id: WorkspaceId, goal_ids: Iterable[str]
) -> list[tuple[str, str, str]]:
    """Return goal ID, funnel ID and funnel name of each use of these goals.

    The uses are sorted by funnel name.
    """
    uses = select(funnel_goals.c.goal_id, funnels.c.id, funnels.c.name).join(
        funnels, funnel_goals.c.funnel_id == funnels.c.id
    )
    own_uses = uses.where(
        funnels.c.workspace_id == workspace_id, funnel_goals.c.goal_id.in_(list(goal_ids))
    )
    return [
        (row.goal_id, row.id, row.name)
        for row in db.execute(own_uses.order_by(funnels.c.name, funnels.c.id))
    ]


def funnel_names(db: Connection, goal_id: str) -> list[str]:
    """Return the names of the funnels that use a goal, in alphabetical order."""
    uses = (
        select(funnels.c.name)
        .join(funnel_goals, funnel_goals.c.funnel_id == funnels.c.id)
        .where(funnel_goals.c.goal_id == goal_id)
    )
    return list(db.scalars(uses.order_by(funnels.c.name)))
