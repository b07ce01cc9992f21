"""Rows of imports and of their rejected lines."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, or_, select, update

from penstock.base.errors import Fault
from penstock.base.ids import ImportId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.imports.model import ImportJob, ImportSpan, ImportState, Reject
from penstock.metadb.pages import page_of
from penstock.metadb.tables import import_rejects, imports

_OPEN = (ImportState.QUEUED, ImportState.RUNNING)
_NOT_WHOLE = (*_OPEN, ImportState.FAILED)
_TIMES = ("first_event_at", "last_event_at", "reach_from", "reach_to", "created_at", "updated_at", "finished_at")


def add(connection: Connection, job: ImportJob) -> None:
    connection.execute(insert(imports).values(_values(job)))


def save(connection: Connection, job: ImportJob, rejects: Sequence[Reject] = ()) -> None:
    """How far a job is now, and the lines that were rejected on the way."""
    connection.execute(update(imports).where(imports.c.id == job.id).values(_values(job)))
    if rejects:
        rows = [{"import_id": job.id, "line": line, "errors": [_told(fault) for fault in faults]} for line, faults, _ in rejects]
        connection.execute(insert(import_rejects), rows)


def _values(job: ImportJob) -> dict[str, Any]:
    return {name: getattr(job, f"{name}_ms" if name in _TIMES else name) for name in imports.c.keys()}  # noqa: SIM118


def _told(fault: Fault) -> dict[str, str]:
    return {"field": fault.field, "code": fault.code, "message": fault.message}


def _job(row: Row[Any]) -> ImportJob:
    columns = {(f"{name}_ms" if name in _TIMES else name): value for name, value in row._mapping.items()}
    return ImportJob(**{**columns, "state": ImportState(row.state)})


def find(connection: Connection, workspace_id: WorkspaceId, import_id: str) -> ImportJob | None:
    row = connection.execute(select(imports).where(imports.c.id == import_id, imports.c.workspace_id == workspace_id)).first()
    return None if row is None else _job(row)


def page(connection: Connection, workspace_id: WorkspaceId, website_id: str | None, asked: Page) -> Listing[ImportJob]:
    """Newest first."""
    wanted = select(imports).where(imports.c.workspace_id == workspace_id)
    if website_id is not None:
        wanted = wanted.where(imports.c.website_id == website_id)
    rows, total = page_of(connection, wanted.order_by(imports.c.created_at.desc(), imports.c.id.desc()), asked)
    return Listing([_job(row) for row in rows], asked, total)


def rejects(connection: Connection, job: ImportJob, asked: Page) -> Listing[Reject]:
    """In the order of the lines."""
    of_job = select(import_rejects.c.line, import_rejects.c.errors).where(import_rejects.c.import_id == job.id)
    rows = connection.execute(of_job.order_by(import_rejects.c.line).offset(asked.offset).limit(asked.size))
    return Listing([Reject(line, [Fault(**told) for told in errors]) for line, errors in rows], asked, job.rejected)


def open_jobs(connection: Connection) -> list[ImportJob]:
    """What is still to be read, oldest first, of every workspace."""
    return [_job(row) for row in connection.execute(select(imports).where(imports.c.state.in_(_OPEN)).order_by(imports.c.created_at))]


def open_imports(connection: Connection, website_ids: Collection[str]) -> list[ImportId]:
    """Those of some websites that are still to be read, oldest first."""
    c = imports.c
    still_open = select(c.id).where(c.website_id.in_(website_ids), c.state.in_(_OPEN)).order_by(c.created_at, c.id)
    return [ImportId(import_id) for import_id in connection.execute(still_open).scalars()]


def spans(connection: Connection, workspace_id: WorkspaceId, website_ids: Collection[str]) -> list[ImportSpan]:
    """What each import touches, oldest first."""
    c = imports.c
    touched = select(imports).where(
        c.workspace_id == workspace_id, c.website_id.in_(website_ids), or_(c.reach_from.is_not(None), c.state.in_(_NOT_WHOLE))
    )
    return [_span(_job(row)) for row in connection.execute(touched.order_by(c.created_at))]


def _span(job: ImportJob) -> ImportSpan:
    """An import that is not read to its end may miss events of any time before it was asked for."""
    if job.state in _NOT_WHOLE or job.reach_from_ms is None or job.reach_to_ms is None:
        reach = (0, max(job.reach_to_ms or 0, job.created_at_ms))
    else:
        reach = (job.reach_from_ms, job.reach_to_ms)
    from_ms, to_ms = job.first_event_at_ms, job.last_event_at_ms
    if from_ms is None or to_ms is None:
        from_ms, to_ms = reach
    return ImportSpan(job.website_id, from_ms, to_ms, reach, job.created_at_ms, job.state, job.rejected)
