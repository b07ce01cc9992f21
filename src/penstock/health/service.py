"""Whether this node is ready: both stores answer and no background worker keeps failing."""

from collections.abc import Callable, Sequence

import anyio
from anyio import CapacityLimiter, to_thread

from penstock.base.clock import Clock
from penstock.base.metrics import PolledGauge
from penstock.base.worker import Worker, WorkerHealth
from penstock.health.model import Readiness

FAILED_AFTER_MS = 60_000
"""A worker that fails this long makes the node not ready."""

_ANSWER_S = 3.0
_PROBES = 2


class HealthService:
    """Checks both stores on request, with a time limit: a store that hangs does not answer."""

    def __init__(
        self,
        answers_by_store: dict[str, Callable[[], bool]],
        workers: Sequence[Worker],
        clock: Clock,
        *,
        answer_s: float = _ANSWER_S,
    ) -> None:
        """answers_by_store: store name -> a blocking check whether it answers."""
        self._workers, self._clock, self._answer_s = workers, clock, answer_s
        # Threads of their own and few: requests that hang may occupy every shared thread.
        self._probes = {
            name: (answers, CapacityLimiter(_PROBES)) for name, answers in answers_by_store.items()
        }

    async def readiness(self) -> Readiness:
        """Takes at most the time limit of one store check."""
        stores: dict[str, bool] = {}

        async def check(name: str) -> None:
            stores[name] = await self._answers(name)

        async with anyio.create_task_group() as tasks:
            for name in self._probes:
                tasks.start_soon(check, name)
        workers = [worker.health() for worker in self._workers]
        return Readiness(stores, workers, [worker for worker in workers if self._failed(worker)])

    async def _answers(self, name: str) -> bool:
        answers, limiter = self._probes[name]
        with anyio.move_on_after(self._answer_s):
            return await to_thread.run_sync(answers, limiter=limiter, abandon_on_cancel=True)
        return False

    def _failed(self, worker: WorkerHealth) -> bool:
        since_ms = worker.failing_since_ms
        return since_ms is not None and self._clock() - since_ms >= FAILED_AFTER_MS


def worker_gauges(workers: Sequence[Worker]) -> list[PolledGauge]:
    """How the background workers fare, by name."""

    def is_failing() -> dict[str, float]:
        return {
            worker.name: float(worker.health().failing_since_ms is not None) for worker in workers
        }

    def last_success_s() -> dict[str, float]:
        health = [worker.health() for worker in workers]
        return {
            one.name: one.last_success_at_ms / 1000
            for one in health
            if one.last_success_at_ms is not None
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
