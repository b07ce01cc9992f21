"""The readiness check: both stores must answer, and no background worker may keep failing."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from anyio import CapacityLimiter, to_thread

from penstock.base.disk_space import DiskSpace
from penstock.base.errors import StoreUnavailable
from penstock.base.metrics import PolledGauge
from penstock.base.worker import Worker, WorkerHealth
from penstock.health.model import (
    MissingEvents,
    OutboxState,
    OutcomesHealth,
    Readiness,
    Resources,
)
from penstock.health.resources import read_resources

FAILED_AFTER_MS = 60_000
"""Time of continuous failure after which a worker makes the node unready, in ms."""

OUTBOX_AGE_S = 300
"""Maximum age of the oldest waiting event for a node to be ready, in seconds."""
_ANSWER_S = 3.0
_PROBES = 2


class HealthService:
    """Checks both stores on request, with a time limit, because a store may hang."""

    def __init__(
        self,
        answers_by_store: dict[str, Callable[[], bool]],
        workers: Sequence[Worker],
        *,
        outbox: Callable[[], OutboxState],
        outcomes: Callable[[], OutcomesHealth],
        missing: Callable[[], MissingEvents],
        is_damaged: Callable[[], bool],
        missing_right: Callable[[], str | None],
        silent_shards: Callable[[], Sequence[int]],
        disk_space: DiskSpace,
        answer_s: float = _ANSWER_S,
    ) -> None:
        """answers_by_store: for each store name, a blocking function that returns whether the store
        answers.

        outbox: reads the outbox state; blocks. outcomes: reads the state of stored outcomes.
        missing: reads the number of missing events. is_damaged: returns whether the metadata
        database is damaged. missing_right: returns a permission missing in the event store, or
        None. silent_shards: numbers of the event store's shards that do not respond. disk_space:
        the disk of the data folder.
        """
        self._outbox, self._disk_space = outbox, disk_space
        self._outcomes, self._missing, self._is_damaged = outcomes, missing, is_damaged
        self._missing_right, self._silent_shards = missing_right, silent_shards
        self._outbox_limiter = CapacityLimiter(_PROBES)
        self._resource_limiter = CapacityLimiter(_PROBES)
        self._workers, self._answer_s = workers, answer_s
        # The probes have a few separate threads, because hanging requests may occupy every
        # shared thread.
        self._probes = {
            name: (answers, CapacityLimiter(_PROBES)) for name, answers in answers_by_store.items()
        }

    async def readiness(self) -> Readiness:
        """Return the current state. Takes no longer than the time limit for checking one store."""
        stores: dict[str, bool] = {}
        outbox: OutboxState | None = None
        resources: Resources | None = None

        async def check(name: str) -> None:
            stores[name] = await self._answers(name)

        async def read_outbox() -> None:
            nonlocal outbox
            outbox = await self._outbox_state()

        async def read_node() -> None:
            nonlocal resources
            resources = await self._resources()

        async with anyio.create_task_group() as tasks:
            for name in self._probes:
                tasks.start_soon(check, name)
            tasks.start_soon(read_outbox)
            tasks.start_soon(read_node)
        workers = [worker.health() for worker in self._workers]
        age_s = outbox.oldest_age_s if outbox else None
        return Readiness(
            stores,
            workers,
            failed_workers=[worker for worker in workers if self._has_failed(worker)],
            outbox=outbox,
            is_outbox_old=age_s is not None and age_s > OUTBOX_AGE_S,
            resources=resources,
            outcomes=self._outcomes(),
            missing=self._missing(),
            is_damaged=self._is_damaged(),
            missing_right=self._missing_right(),
            silent_shards=self._silent_shards(),
        )

    async def _outbox_state(self) -> OutboxState | None:
        with anyio.move_on_after(self._answer_s):
            try:
                return await to_thread.run_sync(
                    self._outbox, limiter=self._outbox_limiter, abandon_on_cancel=True
                )
            except StoreUnavailable:
                return None
        return None

    async def _resources(self) -> Resources | None:
        """Return the resources in use.

        Returns None if a network file system hangs, or if the process is out of file descriptors.
        """
        with anyio.move_on_after(self._answer_s), suppress(OSError):
            return await to_thread.run_sync(
                read_resources,
                self._disk_space,
                limiter=self._resource_limiter,
                abandon_on_cancel=True,
            )
        return None

    async def _answers(self, name: str) -> bool:
        answers, limiter = self._probes[name]
        with anyio.move_on_after(self._answer_s):
            return await to_thread.run_sync(answers, limiter=limiter, abandon_on_cancel=True)
        return False

    def _has_failed(self, worker: WorkerHealth) -> bool:
        return worker.failing_since_ms is not None and worker.failing_for_ms >= FAILED_AFTER_MS


def worker_gauges(workers: Sequence[Worker]) -> list[PolledGauge]:
    """Gauges for each background worker, by name."""

    def is_failing() -> dict[str, float]:
        return {
            worker.name: float(worker.health().failing_since_ms is not None) for worker in workers
        }

    def last_success_s() -> dict[str, float]:
        health = [worker.health() for worker in workers]
        return {
            worker.name: worker.last_success_at_ms / 1000
            for worker in health
            if worker.last_success_at_ms is not None
        }

    return [
        PolledGauge(
            "penstock_worker_failing", "1 while a background worker fails.", is_failing, "worker"
        ),
        PolledGauge(
            "penstock_worker_last_success_timestamp_seconds",
            "When a step of a background worker last succeeded, in Unix time.",
            last_success_s,
            "worker",
        ),
    ]
