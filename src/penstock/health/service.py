"""The readiness check: both stores must answer, and no background worker may keep failing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread

from penstock.base.errors import StoreUnavailable
from penstock.base.metrics import PolledGauge
from penstock.base.worker import Worker, WorkerHealth
from penstock.core import Core
from penstock.health.model import MissingEvents, OutboxState, OutcomesHealth, Readiness
from penstock.health.resources import read_resources
from penstock.metadb.clock import DatabaseClock

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
        core: Core,
        workers: Sequence[Worker],
        *,
        outbox: Callable[[], OutboxState],
        outcomes: Callable[[], OutcomesHealth],
        missing: Callable[[], MissingEvents],
    ) -> None:
        """outbox: reads the outbox state; blocks. outcomes: reads the state of stored outcomes.
        missing: reads the number of missing events.
        """
        self._database, self._warehouse, self._workers = core.database, core.warehouse, workers
        self._clock, self._outcomes, self._missing = core.clock, outcomes, missing
        self._answer_s = _ANSWER_S
        probes: dict[str, Callable[[], Any]] = {
            "database": core.database.answers,
            "warehouse": core.warehouse.answers,
            "outbox": outbox,
            "resources": lambda: read_resources(core.settings.disk_space),
        }
        # The probes have a few separate threads, because hanging requests may occupy every
        # shared thread.
        self._probes = {name: (probe, CapacityLimiter(_PROBES)) for name, probe in probes.items()}

    async def readiness(self) -> Readiness:
        """Return the current state. Takes no longer than the time limit for checking one store."""
        results: dict[str, Any] = {}

        async def run(name: str) -> None:
            results[name] = await self._result(name)

        async with anyio.create_task_group() as tasks:
            for name in self._probes:
                tasks.start_soon(run, name)
        workers = [worker.health() for worker in self._workers]
        outbox: OutboxState | None = results["outbox"]
        age_s = outbox.oldest_age_s if outbox else None
        return Readiness(
            {name: bool(results[name]) for name in ("database", "warehouse")},
            workers,
            failed_workers=[worker for worker in workers if self._has_failed(worker)],
            outbox=outbox,
            is_outbox_old=age_s is not None and age_s > OUTBOX_AGE_S,
            resources=results["resources"],
            outcomes=self._outcomes(),
            missing=self._missing(),
            is_damaged=self._database.damage is not None,
            missing_right=self._warehouse.missing_right,
            silence=self._warehouse.silence,
            clock_ahead_ms=self._clock_ahead_ms(),
            cannot_write=self._database.is_full,
            has_newer_schema=self._database.is_newer,
        )

    async def _result(self, name: str) -> Any:
        """Run a probe in a thread.

        Returns None if its store or a network file system hangs, if the store is not available, or
        if the process is out of file descriptors.
        """
        probe, limiter = self._probes[name]
        with anyio.move_on_after(self._answer_s), suppress(StoreUnavailable, OSError):
            return await to_thread.run_sync(probe, limiter=limiter, abandon_on_cancel=True)
        return None

    def _clock_ahead_ms(self) -> int | None:
        if self._database.is_sqlite or not isinstance(self._clock, DatabaseClock):
            return None
        return self._clock.ahead_ms

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
