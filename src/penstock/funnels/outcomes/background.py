"""Limits the worker's statements, so that queries come first, and stops them with the service."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base.worker import WorkerStopped
from penstock.warehouse.work import Stopped, Work, working_on

_BUILD_S = 4 * 3600
"""Time limit for a statement of the worker, in seconds."""


class BackgroundWork:
    """Limits the worker's statements. work: controls the running statements; None if none are
    running.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self.work: Work | None = None

    @contextmanager
    def limit(self, work: Work) -> Iterator[None]:
        """Limit statements to one thread, to leave the other threads to the intake and to
        queries.
        """
        work.limits |= {
            "max_threads": 1,
            "max_execution_time": _BUILD_S,
            "max_memory_usage": self._memory_bytes,
        }
        outer, self.work = self.work, work
        try:
            with working_on(work):
                yield
        finally:
            self.work = outer

    @contextmanager
    def limit_step(self) -> Iterator[None]:
        """Limit the statements of one step. Raises `WorkerStopped` if the service stops them."""
        try:
            with self.limit(Work()):
                yield
        except Stopped:
            raise WorkerStopped from None
