"""SQL for the list of exports. Each function runs in the transaction of its connection."""

from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.base.row_files import RowFormat
from penstock.events.deletions.model import RemainingExport
from penstock.exports.model import Export
from penstock.metadb.pages import page_of
from penstock.metadb.rows import record_values, row_values
from penstock.metadb.tables import exports

_C = exports.c
_FIELDS = tuple(field.name for field in fields(Export))
_MAX_REMAINING = 100


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
    return None if row is None else _export(row)


def page(connection: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Export]:
    """List exports, newest first."""
    selected = select(exports).where(_C.workspace_id == workspace_id)
    rows, total = page_of(connection, selected.order_by(_C.started_at.desc(), _C.id.desc()), page)
    return Listing([_export(row) for row in rows], page, total)


def remaining_exports(
    connection: Connection, workspace_id: WorkspaceId, until_ms: int
) -> list[RemainingExport]:
    """Return exports that started up to a time, newest first, with one entry for each destination.

    A complete export that started later replaced the files of its destination, so these
    destinations are left out.
    """
    replaced = select(_C.destination).where(
        _C.workspace_id == workspace_id, _C.started_at > until_ms, _C.finished_at.is_not(None)
    )
    latest = func.max(_C.started_at)
    rows = connection.execute(
        select(_C.destination, latest, func.min(_C.first_day), func.max(_C.last_day))
        .where(
            _C.workspace_id == workspace_id,
            _C.started_at <= until_ms,
            _C.destination.not_in(replaced),
        )
        .group_by(_C.destination)
        .order_by(latest.desc(), _C.destination)
        .limit(_MAX_REMAINING)
    )
    return [RemainingExport(*row) for row in rows]


def _export(row: Row[Any]) -> Export:
    values = record_values(row, _FIELDS)
    return Export(**values | {"file_format": RowFormat(row.file_format)})
