"""The worker that maintains stored outcomes: it builds them, keeps them up to date, compares them
with their events, and drops them.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import structlog
from anyio import CancelScope, CapacityLimiter, to_thread

from penstock.base.attempts import Attempts
from penstock.base.clock import Clock
from penstock.base.worker import Worker, WorkerStopped
from penstock.funnels.outcomes.background import BackgroundWork
from penstock.funnels.outcomes.builds import OutcomeBuilder
from penstock.funnels.outcomes.locks import OutcomeLocks
from penstock.funnels.outcomes.model import Mark, Overtaken, PendingBuild, Unsettled
from penstock.funnels.outcomes.refresh import OutcomeRefresher
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.outcomes.subjects import SubjectReader
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.funnels.outcomes.upkeep import OutcomeUpkeep
from penstock.health.model import OutcomesHealth
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings
from penstock.warehouse.client import Progress, Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped

log = structlog.get_logger()

_PERIOD_S = 30.0
_DROP_ALL_AFTER_S = 2.0  # Nothing reads these rows, and there is other work at startup.


class OutcomeMaintenance:
    """Runs builds and upkeep one after the other, in one thread.

    Methods other than `running` and `state` block: call them from a worker thread.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        database: Database,
        subjects: SubjectReader,
        settings: Settings,
        clock: Clock,
        attempts: Attempts,
    ) -> None:
        self._warehouse, self._clock, self._attempts = warehouse, clock, attempts
        self.subjects = subjects
        self.is_enabled = settings.stored_outcomes > 0 and warehouse.cluster is None
        self.is_embedded = warehouse.folder is not None
        self.tables = OutcomeTables(warehouse)
        self.registry = OutcomeRegistry(clock)
        self.locks = OutcomeLocks(database, self.tables, self.registry, clock)
        self.worker = Worker("outcomes", self.step, clock, period_s=_PERIOD_S, stalled_after_s=None)
        self.refresher = OutcomeRefresher(self.tables, self.registry, self.worker.wake)
        self._background = BackgroundWork(settings.query_memory_bytes)
        parts = self.tables, self.registry, self.locks, self.refresher
        self.rows = OutcomeRows(*parts, is_embedded=self.is_embedded)
        self.upkeep = OutcomeUpkeep(*parts, self.rows, subjects, clock)
        self._builder = OutcomeBuilder(
            *parts,
            self.rows,
            self._background,
            clock,
            max_outcomes=settings.stored_outcomes,
            is_disk_low=settings.disk_space.is_low,
        )
        self._is_prepared = False
        self._forgot_at_ms: int | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the worker during the context. A build that was stopped is repeated after the next
        start.
        """
        if self._warehouse.cluster is not None:
            yield
            return
        async with self.worker.running():
            try:
                yield
            finally:
                if self._background.work is not None:
                    with CancelScope(shield=True):
                        # Use a separate limiter, because hanging requests may occupy every shared
                        # thread.
                        await to_thread.run_sync(
                            self.tables.stop, self._background.work, limiter=CapacityLimiter(1)
                        )

    def state(self) -> OutcomesHealth:
        """Return the state for health checks. Never blocks."""
        stored = len(self.registry.marks())
        return OutcomesHealth(stored, self.upkeep.differences, self.upkeep.last_difference_at_ms)

    def progress(self, pending: PendingBuild) -> Progress:
        """Return the progress of a build. Raises `QueryFailed` and `StoreUnavailable`."""
        return self._warehouse.progress(pending.work)

    def cancel(self, pending: PendingBuild) -> None:
        """Cancel a build. Waits until it has stopped, like `OutcomeTables.stop`."""
        self.registry.cancel_build(pending)
        self.tables.stop(pending.work)

    def verify(self) -> Iterator[tuple[str, bool | None]]:
        """Compare all stored outcomes with their events, and rebuild outcomes that differ.

        Yields each funnel's ID, and whether its stored outcomes and events agreed; None if they
        could not be compared. Call this only in a process without a running worker.
        """
        with self._background.limit_step():
            self.rows.read_marks()
            for mark in self.registry.marks():
                yield mark.funnel_id, self.upkeep.compare(mark, (1, 0))
            for pending in self.registry.pending_builds():
                self._builder.build(pending)

    def step(self) -> None:
        """Run one step of the worker, with all tasks that are due."""
        if not (self.is_enabled or self.rows.is_loaded):
            self.worker.pause(_DROP_ALL_AFTER_S)
        with self._background.limit_step():
            if not self._is_prepared:
                self._prepare()
            if self.tables.has_stopped_merges:
                self.tables.resume_merges()
            if not self.is_enabled:
                if not self.rows.is_loaded:
                    self.rows.drop_all()
                return
            self.rows.read_marks()
            self._run_tasks(
                [
                    self.rows.drop_unmarked,
                    *(partial(self._build, build) for build in self.registry.pending_builds()),
                    *(partial(self._maintain, mark) for mark in self.registry.marks()),
                    self.upkeep.compare_sample,
                    self._forget_old_changes,
                ]
            )

    def _build(self, pending: PendingBuild) -> None:
        """Run a build. It is given up for a while if the process died of it lately."""
        outcome = pending.subject.outcome
        if held_ms := self._attempts.held_ms(outcome):
            self.registry.postpone(outcome, held_ms)
            self.registry.end_build(pending)
            return
        with self._attempts.attempt(outcome):
            self._builder.build(pending)
        self._attempts.forget(outcome)

    def _maintain(self, mark: Mark) -> None:
        """Maintain an outcome, unless the process died of it lately."""
        if self._attempts.held_ms(mark.outcome):
            return
        with self._attempts.attempt(mark.outcome):
            self.upkeep.maintain(mark)
        self._attempts.forget(mark.outcome)

    def _prepare(self) -> None:
        """Check at startup whether outcomes can be stored, and resume merges."""
        self.is_enabled = self.is_enabled and self._warehouse.orders_inserts()
        if self.is_enabled and not self.is_embedded:
            try:
                self.tables.resume_merges()  # A node that was killed may have stopped them.
            except QueryFailed as error:  # For example, a privilege is missing.
                log.warning("merges_not_resumed", error=str(error))
        self._is_prepared = True

    def _run_tasks(self, tasks: list[Callable[[], None]]) -> None:
        """Run all tasks, then raise the first error, so that a failing outcome does not stop the
        others.
        """
        errors: list[Exception] = []
        for task in tasks:
            self.worker.report_progress()
            try:
                task()
            except (Stopped, WorkerStopped):
                raise
            except Overtaken:  # Another node is doing the same work now.
                log.warning("outcomes_overtaken")
            except Unsettled:  # The next step tries again.
                log.info("outcomes_unsettled")
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _forget_old_changes(self) -> None:
        """Delete old changes of outcomes without rows, at startup and then once a day."""
        now_ms = self._clock.elapsed_ms()
        if self._forgot_at_ms is None or now_ms >= self._forgot_at_ms + DAY_S * 1000:
            self.locks.forget_old()
            self._forgot_at_ms = now_ms
