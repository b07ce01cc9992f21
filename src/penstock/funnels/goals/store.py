"""Reads goals and their uses, inside the caller's transaction."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, RowMapping, select

from penstock.base.ids import GoalId, WorkspaceId
from penstock.metadb.tables import funnel_goals, funnels, goals


def goal_rows(db: Connection, workspace_id: WorkspaceId) -> Sequence[RowMapping]:
    """Return the rows of all goals of the workspace."""
    return db.execute(select(goals).where(goals.c.workspace_id == workspace_id)).mappings().all()


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
