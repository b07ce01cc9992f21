"""Jobs of this node, in memory: a client can repeat the request of a lost job.

A job belongs to the node that accepted it, and ends with it. A finished job is kept for an hour,
and only a few per workspace.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from anyio import CapacityLimiter, to_thread
from litestar import Response
from litestar.response import Stream
from pydantic import BaseModel

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import Clock, iso, iso_or_none
from penstock.base.errors import Conflict, NotFound, StoreUnavailable
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import WorkspaceId, new_id
from penstock.http.answers import answer
from penstock.http.problems import problem_of
from penstock.http.requests import AnyRequest, path_of
from penstock.jobs.schema import JobRecord, JobState
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on

ComputeAnswer = Callable[[], BaseModel | dict[str, Any] | Response[bytes]]
"""Computes an answer; blocks."""

_ANSWERS = QueueLimits(slots=40, slots_per_key=16, waiting=400, waiting_per_key=24)
"""Clients that wait for an answer. A slot is a thread, which mostly waits for the engine."""
_MAX_UNFINISHED_JOBS, _MAX_WAITING_JOBS = 20, 400
_MAX_FINISHED_JOBS = 50
_FINISHED_JOB_S = 3600


@dataclass(slots=True)
class Job:
    """An answer computed in the background. response: the answer or a problem document."""

    id: str
    workspace_id: WorkspaceId
    request: str
    work: Work
    created_at_ms: int
    state: JobState = JobState.QUEUED
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    started_s: float = 0.0
    elapsed_s: float = 0.0
    rows_read: int = 0
    rows_to_read: int = 0
    response: Response[bytes] | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        return self.state not in (JobState.QUEUED, JobState.RUNNING)


class JobService:
    """Computes answers: for clients that wait, and as jobs.

    Call methods from the event loop, except those that block.
    """

    def __init__(
        self, warehouse: Warehouse, limits: WorkspaceService, clock: Clock, *, queries_at_once: int
    ) -> None:
        self._warehouse, self._limits, self._clock = warehouse, limits, clock
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
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

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. Stops unfinished jobs at the end."""
        try:
            yield
        finally:
            for job in self._jobs.values():
                self._cancel(job)
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def count_by_state(self) -> dict[str, int]:
        """Jobs that are kept, finished ones too."""
        return Counter(job.state.value for job in list(self._jobs.values()))

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

    def start(self, request: AnyRequest, workspace_id: WorkspaceId, compute: ComputeAnswer) -> Job:
        """A job that answers the request. QueueFull with too many unfinished jobs."""
        self._forget_old(workspace_id)
        may_run = asyncio.Event()
        place = self._running_jobs.enter(workspace_id, may_run.set)
        now_ms = self._clock()
        job = Job(
            new_id("job", now_ms),
            workspace_id,
            f"{request.method} {path_of(request)}",
            Work(owner=workspace_id),
            now_ms,
        )
        self._jobs[job.id] = job
        if place.has_slot:
            may_run.set()
        job.task = asyncio.create_task(self._run(job, request, compute, may_run))
        self._tasks.add(job.task)
        job.task.add_done_callback(self._tasks.discard)
        # Not in `_run`: a task that is cancelled at once never begins.
        job.task.add_done_callback(lambda _: self._running_jobs.leave(place))
        return job

    async def _run(
        self, job: Job, request: AnyRequest, compute: ComputeAnswer, may_run: asyncio.Event
    ) -> None:
        try:
            await may_run.wait()
            job.state = JobState.RUNNING
            job.started_at_ms, job.started_s = self._clock(), monotonic()
            # Its own limiter: the slots bound the threads.
            job.response = await to_thread.run_sync(
                self._compute, job.work, job.workspace_id, compute, limiter=CapacityLimiter(1)
            )
            state = JobState.DONE
        except asyncio.CancelledError:
            return
        except Stopped:
            state = JobState.CANCELLED
        except Exception as error:  # reported to the client that reads the result
            job.response, state = problem_of(request, error), JobState.FAILED
        if not job.finished:
            self._finish(job, state)

    def _finish(self, job: Job, state: JobState) -> None:
        job.elapsed_s = monotonic() - job.started_s if job.started_at_ms is not None else 0.0
        job.state, job.finished_at_ms = state, self._clock()

    def _cancel(self, job: Job) -> None:
        if job.finished or job.task is None:
            return
        if job.state is JobState.QUEUED:
            job.task.cancel()
        else:
            stopping = asyncio.create_task(self.stop(job.work))
            self._tasks.add(stopping)
            stopping.add_done_callback(self._tasks.discard)
        self._finish(job, JobState.CANCELLED)

    def get(self, workspace_id: WorkspaceId, job_id: str) -> Job:
        """NotFound for an expired job, or one of another node or workspace."""
        self._forget_old(workspace_id)
        job = self._jobs.get(job_id)
        if job is None or job.workspace_id != workspace_id:
            raise NotFound(
                "There is no such job in this workspace; finished jobs are kept for an hour."
            )
        return job

    def cancel(self, workspace_id: WorkspaceId, job_id: str) -> None:
        """Stop a job, or delete a finished one. NotFound as of `get`."""
        job = self.get(workspace_id, job_id)
        if job.finished:
            del self._jobs[job.id]
        else:
            self._cancel(job)

    def result(self, workspace_id: WorkspaceId, job_id: str) -> Response[bytes]:
        """The response of the route: an answer or a problem. Conflict without one.

        NotFound as of `get`.
        """
        job = self.get(workspace_id, job_id)
        if job.state is JobState.CANCELLED:
            raise Conflict("The job was cancelled; repeat the request.", code="job_cancelled")
        if job.response is None:
            raise Conflict(
                "The job is not finished; read its state first.", code="job_not_finished"
            )
        response = job.response
        if isinstance(response, Stream):  # a file: read again for each client
            return Stream(
                response.iterator,
                status_code=response.status_code,
                media_type=response.media_type,
                headers=response.headers,
            )
        return Response(
            response.content,
            status_code=response.status_code,
            media_type=response.media_type,
            headers=response.headers,
        )

    def record(self, job: Job) -> JobRecord:
        """The current state. Blocks while the engine reports progress."""
        if job.state is JobState.RUNNING:
            # Without an answer, progress stays as it was.
            with suppress(QueryFailed, StoreUnavailable):
                rows_read, rows_to_read = self._warehouse.progress(job.work)
                job.rows_read, job.rows_to_read = (
                    max(job.rows_read, rows_read),
                    max(job.rows_to_read, rows_to_read),
                )
        elif job.state is JobState.DONE:
            job.rows_to_read = job.rows_read = max(
                job.rows_read, job.rows_to_read, job.work.rows_read
            )
        return JobRecord(
            id=job.id,
            state=job.state,
            request=job.request,
            created_at=iso(job.created_at_ms),
            started_at=iso_or_none(job.started_at_ms),
            finished_at=iso_or_none(job.finished_at_ms),
            elapsed_seconds=round(
                monotonic() - job.started_s if job.state is JobState.RUNNING else job.elapsed_s, 3
            ),
            rows_read=job.rows_read,
            rows_to_read=job.rows_to_read,
            result_url=f"/api/jobs/{job.id}/result"
            if job.state in (JobState.DONE, JobState.FAILED)
            else None,
        )

    def _forget_old(self, workspace_id: WorkspaceId) -> None:
        """Delete expired jobs of all workspaces, and the oldest of this one if it has too many."""
        before_ms = self._clock() - _FINISHED_JOB_S * 1000
        expired = [
            job
            for job in self._jobs.values()
            if job.finished_at_ms is not None and job.finished_at_ms < before_ms
        ]
        for job in expired:
            del self._jobs[job.id]
        finished = [
            job for job in self._jobs.values() if job.workspace_id == workspace_id and job.finished
        ]
        for job in finished[: max(0, len(finished) - _MAX_FINISHED_JOBS)]:
            del self._jobs[job.id]
