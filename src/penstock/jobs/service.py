"""Slow responses, computed for waiting clients or as jobs.

A job runs on the node that accepted it. Its state and response are in the metadata DB, so every
node can return and cancel it. If its node stops, the job fails and the client can repeat the
request. Finished jobs are kept for an hour, and only a few per workspace.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from anyio import CapacityLimiter, to_thread
from litestar import Response
from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import Clock
from penstock.base.errors import (
    Conflict,
    OutOfDisk,
    StoreConflict,
    StoreUnavailable,
    TooLarge,
    Unavailable,
)
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId, new_id
from penstock.base.worker import Backoff, Worker
from penstock.disk.service import DiskService
from penstock.http.answers import answer
from penstock.http.problems import problem_of
from penstock.http.requests import AnyRequest, path_of
from penstock.jobs import store
from penstock.jobs.model import Job, JobState
from penstock.jobs.responses import MAX_BYTES, no_such_job, read_response, store_response
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

ComputeAnswer = Callable[[], BaseModel | dict[str, Any] | Response[bytes]]
"""A blocking function that computes a response."""

_ANSWERS = QueueLimits(slots=40, slots_per_key=16, waiting=400, waiting_per_key=24)
"""Limits for waiting clients. A slot is a thread, which mostly waits for the engine."""
_MAX_UNFINISHED_JOBS, _MAX_WAITING_JOBS = 20, 400
_MAX_FINISHED_JOBS = 50
_FINISHED_JOB_MS = 3_600_000
_PERIOD_S = 1.0
"""Seconds between reports that this node's jobs are alive. Reports also find cancelled jobs."""
_TOPIC = "jobs"
_IDLE_S = 60.0
"""Seconds between deletions of expired jobs."""
_BACKOFF = Backoff(longest_s=2.0)  # Short enough for jobs to keep their leases.


@dataclass(eq=False, slots=True)
class _OwnJob:
    """An unfinished job of this node. has_started: whether it has left the queue."""

    id: str
    workspace_id: WorkspaceId
    work: Work
    task: "asyncio.Task[None] | None" = None
    has_started: bool = False


class JobService:
    """Computes responses. Call coroutines from the event loop; other methods block."""

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        limits: WorkspaceService,
        disk: DiskService,
        clock: Clock,
    ) -> None:
        self._database, self._warehouse = database, warehouse
        self._limits, self._clock = limits, clock
        self.disk = disk
        self._own: dict[str, _OwnJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Slow responses have their own threads, so that they do not use up the service's other
        # threads.
        self._answers = FairQueue("requests", _ANSWERS)
        # Leave some connections to the engine free for waiting clients, including those of the same
        # workspace.
        queries = warehouse.query_limits
        running, own_running = max(1, queries.slots - 1), max(1, queries.slots_per_key // 2)
        self._running_jobs = FairQueue(
            "jobs",
            QueueLimits(
                running, own_running, _MAX_WAITING_JOBS, _MAX_UNFINISHED_JOBS - own_running
            ),
            code="too_many_jobs",
            retry_after_s=5,
        )
        database.changes.subscribe(_TOPIC, self._on_change)
        self.worker = Worker("jobs", self._step, clock, period_s=_PERIOD_S, backoff=_BACKOFF)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run jobs during the context, and stop unfinished jobs when it ends."""
        self._loop = asyncio.get_running_loop()
        async with self.worker.running():
            try:
                yield
            finally:
                own = list(self._own.values())
                if own:
                    await to_thread.run_sync(self._interrupt, own, limiter=CapacityLimiter(1))
                for job in own:
                    self._stop_job(job)
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def _interrupt(self, own: list[_OwnJob]) -> None:
        """Mark these jobs as failed, because the service is stopping."""
        with suppress(StoreUnavailable), self._database.write() as db:
            for job in own:
                store.finish(db, job.id, {"state": JobState.FAILED}, self._clock())

    def count_by_state(self) -> dict[str, float]:
        """Return the number of stored jobs on all nodes, by state."""
        with self._database.read() as db:
            return store.count_by_state(db)

    async def compute(
        self, work: Work, workspace_id: WorkspaceId, compute: ComputeAnswer
    ) -> Response[bytes]:
        """Compute the response in a thread, within the workspace's limits.

        Raises `Stopped` if the work was stopped, and `QueueFull` if too many requests are waiting.
        """
        return await self._answers.run(workspace_id, self._compute, work, workspace_id, compute)

    def _compute(
        self, work: Work, workspace_id: WorkspaceId, compute: ComputeAnswer
    ) -> Response[bytes]:
        with working_on(work):
            work.check()
            work.limits |= self._limits.engine_limits(workspace_id)
            content = compute()
        return content if isinstance(content, Response) else answer(content)

    async def stop(self, work: Work) -> None:
        """Stop the given work, wherever it is running."""
        await to_thread.run_sync(self._warehouse.stop, work)

    async def start(
        self, request: AnyRequest, workspace_id: WorkspaceId, compute: ComputeAnswer
    ) -> Job:
        """Start a job that computes the response to a request.

        Raises `QueueFull` if there are too many unfinished jobs.
        """
        may_run = asyncio.Event()
        turn = self._running_jobs.enter(workspace_id, may_run.set)
        now_ms = self._clock()
        job = Job(
            id=new_id("job", now_ms),
            workspace_id=workspace_id,
            request=f"{request.method} {path_of(request)}",
            created_at_ms=now_ms,
            alive_at_ms=now_ms,
        )
        try:
            await to_thread.run_sync(self._add, job)
        except BaseException:
            self._running_jobs.leave(turn)
            raise
        if turn.has_slot:
            may_run.set()
        own = self._own[job.id] = _OwnJob(job.id, workspace_id, Work(owner=workspace_id))
        own.task = asyncio.create_task(self._run(own, request, compute, may_run))
        self._tasks.add(own.task)
        own.task.add_done_callback(self._tasks.discard)

        # Use a callback, because a task that is cancelled at once never enters `_run`.
        def leave(_: object) -> None:
            self._running_jobs.leave(turn)
            del self._own[job.id]

        own.task.add_done_callback(leave)
        self.worker.wake()
        return job

    def _add(self, job: Job) -> None:
        with self._database.write() as db:
            store.add(db, job)
            self._delete_oldest(db, job.workspace_id)

    def _delete_oldest(self, db: Connection, workspace_id: WorkspaceId) -> None:
        store.delete_oldest(db, workspace_id, max_jobs=_MAX_FINISHED_JOBS, max_bytes=MAX_BYTES)

    async def _run(
        self, own: _OwnJob, request: AnyRequest, compute: ComputeAnswer, may_run: asyncio.Event
    ) -> None:
        await may_run.wait()
        own.has_started = True
        # Use a separate limiter, because the slots already limit the threads.
        await to_thread.run_sync(self._perform, own, request, compute, limiter=CapacityLimiter(1))

    def _perform(self, own: _OwnJob, request: AnyRequest, compute: ComputeAnswer) -> None:
        try:
            with self._database.write() as db:
                if not store.begin(db, own.id, self._clock()):
                    return
            values = self._response(own, request, compute)
            with self._database.write() as db:
                if not store.finish(db, own.id, values, self._clock()):
                    store.delete_parts(db, own.id)
                self._delete_oldest(db, own.workspace_id)
        except StoreUnavailable as error:  # the job counts as failed when its lease ends
            log.warning("job_not_stored", job_id=own.id, reason=error.reason)
        except StoreConflict:
            pass  # it was cancelled and deleted in the meantime

    def _response(
        self, own: _OwnJob, request: AnyRequest, compute: ComputeAnswer
    ) -> dict[str, Any]:
        """Compute and store the response. Returns the job columns that describe it."""
        state = JobState.DONE
        require_room = partial(self.disk.require_room_for_result, own.workspace_id)
        try:
            response = self._compute(own.work, own.workspace_id, compute)
        except Stopped:
            return {"state": JobState.CANCELLED}
        except Exception as error:  # the client that reads the result gets the error
            response, state = problem_of(request, error), JobState.FAILED
        try:
            values = store_response(self._database, own.id, response, require_room)
        # an OSError means that reading the response's file failed
        except (TooLarge, OutOfDisk, OSError) as error:
            state = JobState.FAILED
            values = store_response(self._database, own.id, problem_of(request, error))
        rows = own.work.rows_read
        read = {"rows_read": rows, "rows_to_read": rows} if state is JobState.DONE else {}
        return {"state": state, **values, **read}

    def _step(self) -> float | None:
        """Report that the jobs of this node are alive, and stop those cancelled on other nodes."""
        own = list(self._own.values())
        with self._database.write() as db:
            now_ms = self._clock()
            alive = store.keep_alive(db, [job.id for job in own], now_ms) if own else set()
            store.delete_expired(db, now_ms - _FINISHED_JOB_MS)
        for job in own:
            if job.id not in alive and self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop_job, job)
        self._save_progress([job for job in own if job.id in alive and job.has_started])
        return None if own else _IDLE_S

    def _save_progress(self, jobs: Sequence[_OwnJob]) -> None:
        """Save the progress of jobs. Progress that cannot be read stays unchanged.

        If the event store does not respond, stop after the first job, so that leases do not expire.
        """
        with suppress(StoreUnavailable):
            for job in jobs:
                with suppress(QueryFailed):
                    progress = self._warehouse.progress(job.work)
                    with self._database.write() as db:
                        store.save_progress(db, job.id, *progress)

    def _stop_job(self, own: _OwnJob) -> None:
        """Stop a job of this node. Call this on the event loop."""
        if own.task is None or own.task.done():
            return
        if not own.has_started:
            own.task.cancel()
            return
        stopping = asyncio.create_task(self.stop(own.work))
        self._tasks.add(stopping)
        stopping.add_done_callback(self._tasks.discard)

    def _on_change(self) -> None:
        if self._own:
            self.worker.wake()

    def job(self, workspace_id: WorkspaceId, job_id: str) -> Job:
        """Return a job. Raises `NotFound` if it has expired or belongs to another workspace."""
        now_ms = self._clock()
        with self._database.read() as db:
            job = store.find(db, workspace_id, job_id)
        if job is None or now_ms - job.alive_at_ms > _FINISHED_JOB_MS:
            raise no_such_job()
        return job.resolve_state(now_ms)

    async def cancel(self, workspace_id: WorkspaceId, job_id: str) -> None:
        """Stop a job, or delete a finished job.

        Raises `NotFound` under the same conditions as `job`.
        """
        await to_thread.run_sync(self._cancel, workspace_id, job_id)
        if (own := self._own.get(job_id)) is not None:
            self._stop_job(own)

    def _cancel(self, workspace_id: WorkspaceId, job_id: str) -> None:
        job = self.job(workspace_id, job_id)
        with self._database.write() as db:
            if job.is_finished:
                store.delete_job(db, workspace_id, job_id)
            else:
                store.finish(db, job_id, {"state": JobState.CANCELLED}, self._clock())
                self._database.changes.announce(db, _TOPIC)

    def response(self, workspace_id: WorkspaceId, job_id: str) -> Response[bytes]:
        """Return the route's response: a result or a problem.

        Raises `Conflict` if there is no response yet, `NotFound` under the same conditions as
        `job`, and `Unavailable` if the job's node stopped.
        """
        job = self.job(workspace_id, job_id)
        if job.state is JobState.CANCELLED:
            raise Conflict("The job was cancelled; repeat the request.", code="job_cancelled")
        if not job.is_finished:
            raise Conflict(
                "The job is not finished; read its state first.", code="job_not_finished"
            )
        if job.status is None:
            raise Unavailable(
                "The service stopped before the job was finished; repeat the request.",
                code="job_interrupted",
                retry_after_s=1,
            )
        return read_response(self._database, job)


def forget_responses(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> dict[str, int]:
    """Delete a workspace's finished jobs: their responses may identify a deleted visitor.

    The number of jobs says nothing about the visitors, so it is not returned.
    """
    store.delete_finished_of_scope(db, scope_id)
    return {}
