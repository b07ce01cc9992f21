"""SQL for a workspace's settings. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, select, update

from penstock.accounts.workspace.model import QueryLimits, WorkspaceSettings
from penstock.base.ids import WorkspaceId
from penstock.metadb.tables import workspaces


def workspace_settings(
    db: Connection, workspace_id: WorkspaceId, *, lock: bool = False
) -> WorkspaceSettings:
    """Return the workspace's settings. lock: whether to lock the row until the transaction ends."""
    columns = (workspaces.c.name, workspaces.c.query_timeout_s, workspaces.c.query_memory_bytes)
    statement = select(*columns).where(workspaces.c.id == workspace_id)
    row = db.execute(statement.with_for_update(key_share=True) if lock else statement).one()
    return WorkspaceSettings(row.name, QueryLimits(row.query_timeout_s, row.query_memory_bytes))


def update_workspace(
    db: Connection, workspace_id: WorkspaceId, settings: WorkspaceSettings
) -> None:
    limits = settings.limits
    values = {
        "name": settings.name,
        "query_timeout_s": limits.timeout_s,
        "query_memory_bytes": limits.memory_bytes,
    }
    db.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(values))
