"""SQL for the list of exports. Each function runs in the transaction of its connection."""

from collections.abc import Iterable

from sqlalchemy import Connection, delete, distinct, func, insert, select, update

from penstock.base.ids import ExportId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.exports.model import Export
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import exports

_C = exports.c


def add(connection: Connection, export: Export) -> None:
    connection.execute(insert(exports).values(row_values(export, exports)))


def save(connection: Connection, export: Export) -> None:
    """Save the progress of an export."""
    statement = update(exports).where(_C.workspace_id == export.workspace_id, _C.id == export.id)
    connection.execute(statement.values(row_values(export, exports)))


def find(
    connection: Connection, workspace_id: WorkspaceId, export_id: str, *, hold: bool = False
) -> Export | None:
    """Read an export. hold: whether to lock it until the transaction ends."""
    statement = select(exports).where(_C.workspace_id == workspace_id, _C.id == export_id)
    row = connection.execute(statement.with_for_update() if hold else statement).first()
    return None if row is None else record_of(row, Export)


def page(connection: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Export]:
    """List exports, newest first."""
    selected = select(exports).where(_C.workspace_id == workspace_id)
    newest = selected.order_by(_C.started_at.desc(), _C.id.desc())
    return listing_of(connection, newest, page, lambda row: record_of(row, Export))


def all_exports(connection: Connection, workspace_id: WorkspaceId) -> list[Export]:
    """Return all exports of a workspace, newest first. `begin` bounds their number."""
    selected = select(exports).where(_C.workspace_id == workspace_id)
    rows = connection.execute(selected.order_by(_C.started_at.desc(), _C.id.desc()))
    return [record_of(row, Export) for row in rows]


def exports_to(
    connection: Connection, workspace_id: WorkspaceId, destination_id: str
) -> list[Export]:
    """Return the exports to a destination, oldest first."""
    selected = select(exports).where(
        _C.workspace_id == workspace_id, _C.destination_id == destination_id
    )
    rows = connection.execute(selected.order_by(_C.started_at, _C.id))
    return [record_of(row, Export) for row in rows]


def number_of_destinations(connection: Connection, workspace_id: WorkspaceId) -> int:
    counted = select(func.count(distinct(_C.destination_id)))
    return connection.execute(counted.where(_C.workspace_id == workspace_id)).scalar_one()


def remove(
    connection: Connection, workspace_id: WorkspaceId, export_ids: Iterable[ExportId]
) -> None:
    connection.execute(
        delete(exports).where(_C.workspace_id == workspace_id, _C.id.in_(list(export_ids)))
    )
