"""SQL for jobs and their responses."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select, update

from penstock.base.ids import WorkspaceId
from penstock.jobs.model import UNFINISHED, Job, JobState
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import job_responses, jobs, websites

c = jobs.c


def add(db: Connection, job: Job) -> None:
    db.execute(insert(jobs).values(row_values(job, jobs)))


def find(db: Connection, workspace_id: WorkspaceId, job_id: str) -> Job | None:
    row = db.execute(select(jobs).where(*_is_job(workspace_id, job_id))).first()
    return None if row is None else record_of(row, Job)


def _is_job(workspace_id: WorkspaceId, job_id: str) -> tuple[ColumnElement[bool], ...]:
    return c.id == job_id, c.workspace_id == workspace_id


def begin(db: Connection, job_id: str, now_ms: int) -> bool:
    """Mark a queued job as running. Returns False if it was cancelled."""
    changed = db.execute(
        update(jobs)
        .where(c.id == job_id, c.state == JobState.QUEUED)
        .values(state=JobState.RUNNING, started_at=now_ms, alive_at=now_ms)
        .returning(c.id)
    )
    return changed.first() is not None


def keep_alive(db: Connection, job_ids: Collection[str], now_ms: int) -> set[str]:
    """Renew the leases of these jobs. Returns the jobs that are still unfinished."""
    alive = db.execute(
        update(jobs)
        .where(c.id.in_(job_ids), c.state.in_(UNFINISHED))
        .values(alive_at=now_ms)
        .returning(c.id)
    )
    return set(alive.scalars())


def save_progress(db: Connection, job_id: str, rows_read: int, rows_to_read: int) -> None:
    """Save a job's progress. Stored numbers never decrease."""
    db.execute(
        update(jobs)
        .where(c.id == job_id, c.state == JobState.RUNNING)
        .values(
            rows_read=case((c.rows_read > rows_read, c.rows_read), else_=rows_read),
            rows_to_read=case((c.rows_to_read > rows_to_read, c.rows_to_read), else_=rows_to_read),
        )
    )


def finish(db: Connection, job_id: str, values: Mapping[str, Any], now_ms: int) -> bool:
    """End a job and set the given columns. Returns False if it had already ended."""
    changed = db.execute(
        update(jobs)
        .where(c.id == job_id, c.state.in_(UNFINISHED))
        .values(finished_at=now_ms, alive_at=now_ms, **values)
        .returning(c.id)
    )
    return changed.first() is not None


def delete_job(db: Connection, workspace_id: WorkspaceId, job_id: str) -> None:
    db.execute(delete(jobs).where(*_is_job(workspace_id, job_id)))


def delete_expired(db: Connection, before_ms: int) -> None:
    """Delete jobs of all workspaces that ended or were last alive before the given time."""
    db.execute(delete(jobs).where(c.alive_at < before_ms))


def delete_oldest(
    db: Connection, workspace_id: WorkspaceId, *, max_jobs: int, max_bytes: int
) -> None:
    """Delete a workspace's oldest finished jobs until the others are within the limits."""
    finished = db.execute(
        select(c.id, c.bytes)
        .where(c.workspace_id == workspace_id, c.state.not_in(UNFINISHED))
        .order_by(c.created_at.desc(), c.id.desc())
    )
    rest_bytes, expired = max_bytes, []
    for number, (job_id, size) in enumerate(finished):
        rest_bytes -= size
        if number >= max_jobs or rest_bytes < 0:
            expired.append(job_id)
    if expired:
        db.execute(delete(jobs).where(c.id.in_(expired)))


def delete_finished_of_scope(db: Connection, scope_id: str) -> None:
    """Delete the finished jobs of the workspace with this identity scope."""
    owner = select(websites.c.workspace_id).where(websites.c.scope_id == scope_id)
    db.execute(delete(jobs).where(c.workspace_id.in_(owner), c.state.not_in(UNFINISHED)))


def count_by_state(db: Connection) -> dict[str, float]:
    """Return the number of jobs in all workspaces, by state."""
    numbers = db.execute(select(c.state, func.count()).group_by(c.state))
    return {state.value: 0.0 for state in JobState} | {
        state: float(number) for state, number in numbers
    }


def add_part(db: Connection, job_id: str, number: int, content: bytes) -> None:
    db.execute(insert(job_responses).values(job_id=job_id, part=number, content=content))


def parts(db: Connection, job_id: str) -> Iterator[bytes]:
    """Yield the parts of a response in order, holding one in memory at a time."""
    own, number = job_responses.c, 0
    while content := db.execute(
        select(own.content).where(own.job_id == job_id, own.part == number)
    ).scalar():
        yield content
        number += 1


def delete_parts(db: Connection, job_id: str) -> None:
    db.execute(delete(job_responses).where(job_responses.c.job_id == job_id))
