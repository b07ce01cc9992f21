"""Sends to many receivers at once, so that no workspace and no slow receiver delays the others."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import shuffle
from threading import Lock, Thread
from typing import NamedTuple

import structlog
from anyio import to_thread

from penstock.base.errors import StoreUnavailable
from penstock.base.ids import WorkspaceId
from penstock.base.worker import Worker

log = structlog.get_logger()

_THREADS, _THREADS_PER_WORKSPACE = 16, 4
"""Maximum number of jobs at once. Slow receivers get half of them."""


class Job(NamedTuple):
    """Something to send. key: identifies what is sent. is_slow: whether its receiver was slow or
    failed before. send: blocks.
    """

    key: str
    workspace_id: WorkspaceId
    is_slow: bool
    send: Callable[[], object]


class Senders:
    """Runs the jobs of a worker, each in a thread. Wakes the worker when a job has ended."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._state = Lock()  # guards the fields below
        self._threads: dict[str, Thread] = {}  # by the key of the job
        # Threads by workspace, and whether their receivers are slow.
        self._used = Counter[tuple[WorkspaceId, bool]]()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the worker during the context. At its end, running jobs are awaited."""
        async with self._worker.running():
            try:
                yield
            finally:
                self._worker.begin_stop()
                await to_thread.run_sync(self._await_threads)

    def _await_threads(self) -> None:
        with self._state:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()

    def start(self, jobs: Iterable[Job]) -> None:
        """Start the jobs for which there is room, unless they are running. The workspaces that send
        least come first.
        """
        waiting = list(jobs)
        shuffle(waiting)
        with self._state:
            waiting.sort(key=lambda job: self._used_by(job.workspace_id))
            for job in waiting:
                if job.key not in self._threads and self._has_room(job):
                    thread = Thread(target=self._run, args=(job,), daemon=True)
                    thread.start()
                    self._threads[job.key] = thread
                    self._used[job.workspace_id, job.is_slow] += 1

    def _used_by(self, workspace_id: WorkspaceId) -> int:
        return self._used[workspace_id, True] + self._used[workspace_id, False]

    def _has_room(self, job: Job) -> bool:
        own_slow = self._used[job.workspace_id, True]
        if (
            self._used.total() >= _THREADS
            or self._used_by(job.workspace_id) >= _THREADS_PER_WORKSPACE
        ):
            return False
        all_slow = sum(number for (_, is_slow), number in self._used.items() if is_slow)
        return not job.is_slow or (
            all_slow < _THREADS // 2 and own_slow < _THREADS_PER_WORKSPACE // 2
        )

    def _run(self, job: Job) -> None:
        is_sent = False
        try:
            job.send()
            is_sent = True
        except Exception as error:  # The worker starts it again later.
            is_away = isinstance(error, StoreUnavailable)
            log.warning(
                "job_not_sent",
                worker=self._worker.name,
                key=job.key,
                exc_info=None if is_away else error,
            )
        finally:
            with self._state:
                del self._threads[job.key]
                self._used[job.workspace_id, job.is_slow] -= 1
        if is_sent:
            self._worker.wake()
