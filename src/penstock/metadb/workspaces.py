"""The lock of a workspace, for changes whose rules concern several of its rows."""

from sqlalchemy import Connection, select

from penstock.base.ids import WorkspaceId
from penstock.metadb.tables import workspaces


def hold_workspace(db: Connection, workspace_id: WorkspaceId) -> None:
    """Lock a workspace until the transaction ends, so that such changes take turns."""
    locked = select(workspaces.c.id).where(workspaces.c.id == workspace_id)
    db.execute(locked.with_for_update(key_share=True))
