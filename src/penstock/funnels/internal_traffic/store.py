"""Reads and writes the filters of internal traffic, inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.internal_traffic.schema import InternalTrafficRecord
from penstock.metadb.tables import internal_traffic


def read(db: Connection, workspace_id: WorkspaceId) -> InternalTrafficRecord:
    row = db.execute(
        select(internal_traffic).where(internal_traffic.c.workspace_id == workspace_id)
    ).first()
    if row is None:
        return InternalTrafficRecord(filters=[], revision=0, updated_at=None)
    return InternalTrafficRecord.model_validate(row)


def replace(
    db: Connection,
    workspace_id: WorkspaceId,
    filters: Sequence[SavedFilter],
    revision: int,
    now_ms: int,
) -> None:
    """Replace the filters. The caller must hold the workspace."""
    db.execute(delete(internal_traffic).where(internal_traffic.c.workspace_id == workspace_id))
    db.execute(
        insert(internal_traffic).values(
            workspace_id=workspace_id,
            filters=[item.model_dump() for item in filters],
            revision=revision,
            updated_at=now_ms,
        )
    )
