"""SQL for a workspace's settings. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, select, update

from penstock.accounts.workspace.model import Contents, WorkspaceSettings
from penstock.base.ids import WorkspaceId
from penstock.metadb.tables import workspaces

_C = workspaces.c
_COLUMNS = (
    _C.name,
    _C.query_timeout_s,
    _C.query_memory_bytes,
    _C.person_trait,
    _C.shared_contents,
    _C.shared_properties,
)
"""Columns of the fields of `WorkspaceSettings`."""


def workspace_settings(
    db: Connection, workspace_id: WorkspaceId, *, lock: bool = False
) -> WorkspaceSettings:
    """Return the workspace's settings. lock: whether to lock the row until the transaction ends."""
    statement = select(*_COLUMNS).where(workspaces.c.id == workspace_id)
    row = db.execute(statement.with_for_update(key_share=True) if lock else statement).one()
    settings = WorkspaceSettings(*row)
    return settings._replace(
        shared_contents=Contents(settings.shared_contents),
        shared_properties=tuple(settings.shared_properties),
    )


def update_workspace(
    db: Connection, workspace_id: WorkspaceId, settings: WorkspaceSettings
) -> None:
    values = dict(zip(_COLUMNS, settings, strict=True))
    db.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(values))
