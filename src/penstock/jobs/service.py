"""Answers that take long: for clients that wait, and as jobs.

A job runs at the node that accepted it. Its state and its response are in the metadata DB, so every
node answers for it and can cancel it. It ends with its node: a client can repeat the request. A
finished job is kept for an hour, and only a few per workspace.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog
from anyio import CapacityLimiter, to_thread
from litestar import Response
from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, StoreConflict, StoreUnavailable, TooLarge, Unavailable
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import WorkspaceId, new_id
from penstock.base.worker import Backoff, Worker
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
"""Computes an answer; blocks."""

_ANSWERS = QueueLimits(slots=40, slots_per_key=16, waiting=400, waiting_per_key=24)
"""Clients that wait for an answer. A slot is a thread, which mostly waits for the engine."""
_MAX_UNFINISHED_JOBS, _MAX_WAITING_JOBS = 20, 400
_MAX_FINISHED_JOBS = 50
_FINISHED_JOB_MS = 3_600_000
_PERIOD_S = 1.0
"""How often a node says that its jobs are alive, and learns which ones others have cancelled."""
_TOPIC = "jobs"
_IDLE_S = 60.0
"""How often expired jobs are deleted."""
_BACKOFF = Backoff(longest_s=2.0)  # the leases of jobs must not end because of it


@dataclass(eq=False, slots=True)
class _OwnJob:
    """An unfinished job of this node. has_started: it no longer waits for its turn."""

    id: str
    workspace_id: WorkspaceId
    work: Work
    task: "asyncio.Task[None] | None" = None
    has_started: bool = False


class JobService:
    """Computes answers. Call coroutines from the event loop; other methods block."""

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        limits: WorkspaceService,
        clock: Clock,
        *,
        queries_at_once: int,
    ) -> None:
        self._database, self._warehouse = database, warehouse
        self._limits, self._clock = limits, clock
        self._own: dict[str, _OwnJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Threads of their own: slow answers must not use up those of the rest of the service.
        self._answers = FairQueue("requests", _ANSWERS)
        # The rest of the engine's connections stays free for clients that wait.
        running, own_running = max(1, queries_at_once - 1), max(1, queries_at_once // 2)
        self._running_jobs = FairQueue(
            "jobs",
            QueueLimits(
                running, own_running, _MAX_WAITING_JOBS, _MAX_UNFINISHED_JOBS - own_running
            ),
            code="too_many_jobs",
            retry_after_s=5,
        )
        database.changes.subscribe(_TOPIC, self._learn_of_cancelled)
        self.worker = Worker("jobs", self._step, clock, period_s=_PERIOD_S, backoff=_BACKOFF)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. Stops unfinished jobs at the end."""
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
        """These jobs end with the service."""
        with suppress(StoreUnavailable), self._database.write() as db:
            for job in own:
                store.finish(db, job.id, {"state": JobState.FAILED}, self._clock())

    def count_by_state(self) -> dict[str, float]:
        """Jobs that are kept, of all nodes."""
        with self._database.read() as db:
            return store.count_by_state(db)

    async def compute(
        self, work: Work, workspace_id: WorkspaceId, compute: ComputeAnswer
    ) -> Response[bytes]:
        """The answer, computed in a thread within the workspace's limits.

        Raises Stopped; QueueFull when too many requests wait for an answer.
        """
        return await self._answers.run(workspace_id, self._compute, work, workspace_id, compute)

    def _compute(
        self, work: Work, workspace_id: WorkspaceId, compute: ComputeAnswer
    ) -> Response[bytes]:
        with working_on(work):
            work.check()
            timeout_s, memory_bytes = self._limits.effective_limits(workspace_id)
            work.limits.update(max_execution_time=timeout_s, max_memory_usage=memory_bytes)
            content = compute()
        return content if isinstance(content, Response) else answer(content)

    async def stop(self, work: Work) -> None:
        """Stop a work, wherever it is."""
        await to_thread.run_sync(self._warehouse.stop, work)

    async def start(
        self, request: AnyRequest, workspace_id: WorkspaceId, compute: ComputeAnswer
    ) -> Job:
        """A job that answers the request. QueueFull with too many unfinished jobs."""
        may_run = asyncio.Event()
        place = self._running_jobs.enter(workspace_id, may_run.set)
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
            self._running_jobs.leave(place)
            raise
        if place.has_slot:
            may_run.set()
        own = self._own[job.id] = _OwnJob(job.id, workspace_id, Work(owner=workspace_id))
        own.task = asyncio.create_task(self._run(own, request, compute, may_run))
        self._tasks.add(own.task)
        own.task.add_done_callback(self._tasks.discard)

        # Not in `_run`: a task that is cancelled at once never begins.
        def leave(_: object) -> None:
            self._running_jobs.leave(place)
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
        # Its own limiter: the slots bound the threads.
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
        except StoreUnavailable as error:  # its lease ends: it has failed
            log.warning("job_not_stored", job_id=own.id, reason=error.reason)
        except StoreConflict:
            pass  # it was cancelled and deleted meanwhile

    def _response(
        self, own: _OwnJob, request: AnyRequest, compute: ComputeAnswer
    ) -> dict[str, Any]:
        """Compute and store the response. Returns what the job knows of it, by column."""
        state = JobState.DONE
        try:
            response = self._compute(own.work, own.workspace_id, compute)
        except Stopped:
            return {"state": JobState.CANCELLED}
        except Exception as error:  # reported to the client that reads the result
            response, state = problem_of(request, error), JobState.FAILED
        try:
            values = store_response(self._database, own.id, response)
        except (TooLarge, OSError) as error:  # OSError: of the file with the response
            state = JobState.FAILED
            values = store_response(self._database, own.id, problem_of(request, error))
        rows = own.work.rows_read
        read = {"rows_read": rows, "rows_to_read": rows} if state is JobState.DONE else {}
        return {"state": state, **values, **read}

    def _step(self) -> float | None:
        """Say that the jobs of this node are alive, and stop those that others have cancelled."""
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
        """Progress stays as it was where it cannot be read.

        An event store that does not answer is asked once: the leases of jobs must not end
        meanwhile.
        """
        with suppress(StoreUnavailable):
            for job in jobs:
                with suppress(QueryFailed):
                    progress = self._warehouse.progress(job.work)
                    with self._database.write() as db:
                        store.save_progress(db, job.id, *progress)

    def _stop_job(self, own: _OwnJob) -> None:
        """Stop a job of this node. On the event loop."""
        if own.task is None or own.task.done():
            return
        if not own.has_started:
            own.task.cancel()
            return
        stopping = asyncio.create_task(self.stop(own.work))
        self._tasks.add(stopping)
        stopping.add_done_callback(self._tasks.discard)

    def _learn_of_cancelled(self) -> None:
        if self._own:
            self.worker.wake()

    def job(self, workspace_id: WorkspaceId, job_id: str) -> Job:
        """NotFound for an expired job, or one of another workspace."""
        now_ms = self._clock()
        with self._database.read() as db:
            job = store.find(db, workspace_id, job_id)
        if job is None or now_ms - job.alive_at_ms > _FINISHED_JOB_MS:
            raise no_such_job()
        return job.as_of(now_ms)

    async def cancel(self, workspace_id: WorkspaceId, job_id: str) -> None:
        """Stop a job, or delete a finished one. NotFound as of `job`."""
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
        """The response of the route: an answer or a problem. Conflict without one.

        NotFound as of `job`. `Unavailable` when the job ended with its node.
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


def forget_responses(db: Connection, scope_id: str) -> None:
    """Delete the finished jobs of a workspace, whose responses may name a deleted visitor."""
    store.delete_finished_of_scope(db, scope_id)
