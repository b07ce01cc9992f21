"""Jobs of this node. They live in memory: what a job answers can be asked again.

A job belongs to the node that took it, and ends with it. A finished job is kept for an hour, and no more than a few of each workspace.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from anyio import CapacityLimiter, to_thread
from litestar import Request, Response
from litestar.response import Stream
from pydantic import BaseModel

from penstock.accounts.limits import LimitService
from penstock.base.clock import Clock, iso, iso_or_none
from penstock.base.errors import Conflict, NotFound, Unavailable
from penstock.base.ids import WorkspaceId, new_id
from penstock.http.answers import answer
from penstock.http.problems import problem_of
from penstock.jobs.records import JobRecord, State
from penstock.warehouse.client import QueryFailed, Warehouse
from penstock.warehouse.work import Stopped, Work, working_on

Make = Callable[[], BaseModel | dict[str, Any] | Response[bytes]]
"""Makes an answer; blocks."""

_WAITING_CLIENTS = 40
_UNFINISHED = 20
_FINISHED_KEPT = 50
_KEPT_S = 3600


@dataclass(slots=True)
class Job:
    """One answer that is made while nobody waits for it. ended: the answer, with its status, or the problem."""

    id: str
    workspace_id: WorkspaceId
    request: str
    work: Work
    created_at_ms: int
    state: State = State.QUEUED
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    started_s: float = 0.0
    elapsed_s: float = 0.0
    rows_read: int = 0
    rows_to_read: int = 0
    ended: Response[bytes] | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        return self.state not in (State.QUEUED, State.RUNNING)


class Jobs:
    """Answers in the making: those that a client waits for, and jobs. For the event loop, unless a method says that it blocks."""

    def __init__(self, warehouse: Warehouse, limits: LimitService, clock: Clock, *, queries_at_once: int) -> None:
        self._warehouse, self._limits, self._clock = warehouse, limits, clock
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Threads of their own: long answers must not take those that the rest of the service blocks in.
        self._waiting_clients = CapacityLimiter(_WAITING_CLIENTS)
        # Some of the places at the engine stay free for clients that wait.
        self._running_jobs = CapacityLimiter(max(1, queries_at_once // 2))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. At the end, jobs that are not done are stopped."""
        try:
            yield
        finally:
            for job in self._jobs.values():
                self._cancel(job)
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def made(self, work: Work, workspace_id: WorkspaceId, make: Make, *, limiter: CapacityLimiter | None = None) -> Response[bytes]:
        """The answer, made in a thread, within the limits of the workspace. Stopped, when the work was."""

        def in_thread() -> Response[bytes]:
            with working_on(work):
                work.check()
                timeout_s, memory_bytes = self._limits.in_force(workspace_id)
                work.limits.update(max_execution_time=timeout_s, max_memory_usage=memory_bytes)
                content = make()
            return content if isinstance(content, Response) else answer(content)

        return await to_thread.run_sync(in_thread, limiter=limiter or self._waiting_clients)

    async def stop(self, work: Work) -> None:
        """Stop a work wherever it is."""
        await to_thread.run_sync(self._warehouse.stop, work)

    def start(self, request: Request[Any, Any, Any], workspace_id: WorkspaceId, make: Make) -> Job:
        """A job that makes an answer to the request. Unavailable when the workspace has too many that are not finished."""
        self._forget_old(workspace_id)
        mine = [job for job in self._jobs.values() if job.workspace_id == workspace_id]
        if sum(1 for job in mine if not job.finished) >= _UNFINISHED:
            raise Unavailable(
                f"{_UNFINISHED} jobs of this workspace are not finished; wait or cancel one.", code="too_many_jobs", retry_after_s=5
            )
        now_ms = self._clock()
        job = Job(new_id("job", now_ms), workspace_id, f"{request.method} {request.url.path}", Work(), now_ms)
        self._jobs[job.id] = job
        job.task = asyncio.create_task(self._run(job, request, make))
        self._tasks.add(job.task)
        job.task.add_done_callback(self._tasks.discard)
        return job

    async def _run(self, job: Job, request: Request[Any, Any, Any], make: Make) -> None:
        try:
            async with self._running_jobs:
                job.state, job.started_at_ms, job.started_s = State.RUNNING, self._clock(), monotonic()
                job.ended, state = await self.made(job.work, job.workspace_id, make, limiter=CapacityLimiter(1)), State.DONE
        except asyncio.CancelledError:
            return
        except Stopped:
            state = State.CANCELLED
        except Exception as error:  # whatever it is, the one who asks for the answer is told
            job.ended, state = problem_of(request, error), State.FAILED
        if not job.finished:
            self._finish(job, state)

    def _finish(self, job: Job, state: State) -> None:
        job.elapsed_s = monotonic() - job.started_s if job.started_at_ms is not None else 0.0
        job.state, job.finished_at_ms = state, self._clock()

    def _cancel(self, job: Job) -> None:
        if job.finished or job.task is None:
            return
        if job.state is State.QUEUED:
            job.task.cancel()
        else:
            stopping = asyncio.create_task(self.stop(job.work))
            self._tasks.add(stopping)
            stopping.add_done_callback(self._tasks.discard)
        self._finish(job, State.CANCELLED)

    def get(self, workspace_id: WorkspaceId, job_id: str) -> Job:
        """NotFound for one that is not there any more, is another node's or another workspace's."""
        self._forget_old(workspace_id)
        job = self._jobs.get(job_id)
        if job is None or job.workspace_id != workspace_id:
            raise NotFound("There is no such job in this workspace; finished ones are kept for an hour.")
        return job

    def cancel(self, workspace_id: WorkspaceId, job_id: str) -> None:
        """Stop a job, or forget one that is finished. NotFound as of `get`."""
        job = self.get(workspace_id, job_id)
        if job.finished:
            del self._jobs[job.id]
        else:
            self._cancel(job)

    def result(self, workspace_id: WorkspaceId, job_id: str) -> Response[bytes]:
        """The answer, as the route would have given it, or its problem. Conflict while there is none. NotFound as of `get`."""
        job = self.get(workspace_id, job_id)
        if job.state is State.CANCELLED:
            raise Conflict("The job was cancelled; ask again.", code="job_cancelled")
        if job.ended is None:
            raise Conflict("The job is not finished; ask for its state.", code="job_not_finished")
        ended = job.ended
        if isinstance(ended, Stream):  # a file: read anew for each who asks
            return Stream(ended.iterator, status_code=ended.status_code, media_type=ended.media_type, headers=ended.headers)
        return Response(ended.content, status_code=ended.status_code, media_type=ended.media_type, headers=ended.headers)

    def record(self, job: Job) -> JobRecord:
        """As it is now. Blocks for as long as the engine takes to tell its progress."""
        if job.state is State.RUNNING:
            with suppress(QueryFailed):  # an engine that does not answer right now makes no progress
                rows_read, rows_to_read = self._warehouse.progress(job.work)
                job.rows_read, job.rows_to_read = max(job.rows_read, rows_read), max(job.rows_to_read, rows_to_read)
        elif job.state is State.DONE:
            job.rows_to_read = job.rows_read = max(job.rows_read, job.rows_to_read, job.work.rows_read)
        return JobRecord(
            id=job.id,
            state=job.state,
            request=job.request,
            created_at=iso(job.created_at_ms),
            started_at=iso_or_none(job.started_at_ms),
            finished_at=iso_or_none(job.finished_at_ms),
            elapsed_seconds=round(monotonic() - job.started_s if job.state is State.RUNNING else job.elapsed_s, 3),
            rows_read=job.rows_read,
            rows_to_read=job.rows_to_read,
            result_url=f"/api/jobs/{job.id}/result" if job.state in (State.DONE, State.FAILED) else None,
        )

    def _forget_old(self, workspace_id: WorkspaceId) -> None:
        """Jobs of anyone that are too old, and the oldest of this workspace when it has too many; those made first come first."""
        before_ms = self._clock() - _KEPT_S * 1000
        for job in [job for job in self._jobs.values() if job.finished_at_ms is not None and job.finished_at_ms < before_ms]:
            del self._jobs[job.id]
        mine = [job for job in self._jobs.values() if job.workspace_id == workspace_id and job.finished]
        for job in mine[: max(0, len(mine) - _FINISHED_KEPT)]:
            del self._jobs[job.id]
