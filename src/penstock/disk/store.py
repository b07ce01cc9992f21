"""SQL for the sizes of a workspace's waiting files."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, func, select

from penstock.base.ids import WorkspaceId
from penstock.disk.model import FileKind, FileUse
from penstock.metadb.tables import import_mappings, imports, jobs

_STAGED = ("checking", "checked")
"""States of an import before its start."""


def file_uses(db: Connection, workspace_id: WorkspaceId) -> list[FileUse]:
    """Return the use of each kind of file that has a record."""
    unfinished = (
        imports.c.workspace_id == workspace_id,
        imports.c.finished_at.is_(None),
    )
    is_staged = imports.c.state.in_(_STAGED)
    size_of_mapping = func.length(cast(import_mappings.c.mapping, Text))
    wanted = {
        FileKind.DRY_RUNS: (imports.c.bytes_total, (*unfinished, is_staged)),
        FileKind.IMPORTS: (imports.c.bytes_total, (*unfinished, ~is_staged)),
        FileKind.IMPORT_MAPPINGS: (
            size_of_mapping,
            (import_mappings.c.workspace_id == workspace_id,),
        ),
        FileKind.JOB_RESULTS: (
            jobs.c.bytes,
            (jobs.c.workspace_id == workspace_id, jobs.c.bytes > 0),
        ),
    }
    return [
        FileUse(kind, *map(int, db.execute(select(func.count(), _sum(size)).where(*where)).one()))
        for kind, (size, where) in wanted.items()
    ]


def sent_bytes(db: Connection, workspace_id: WorkspaceId, sender_id: str) -> int:
    """Return the size of the unfinished imports that a key or user has sent."""
    sent = select(_sum(imports.c.bytes_total)).where(
        imports.c.workspace_id == workspace_id,
        imports.c.finished_at.is_(None),
        imports.c.sent_by == sender_id,
    )
    return int(db.execute(sent).scalar_one())


def _sum(size: ColumnElement[Any]) -> ColumnElement[int]:
    return func.coalesce(func.sum(size), 0)
