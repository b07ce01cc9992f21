"""The worker that builds stored outcomes, keeps them up to date, compares and drops them."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial

import structlog
from anyio import CancelScope, CapacityLimiter, to_thread

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import new_id
from penstock.base.metrics import counter
from penstock.base.worker import Worker, WorkerStopped
from penstock.funnels.outcomes.model import Mark, NotStorable, PendingBuild, Subject
from penstock.funnels.outcomes.refresh import FEW_EVENTS, OutcomeRefresher
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.subjects import SubjectReader
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.health.model import OutcomesHealth
from penstock.settings import DAY_S, Settings
from penstock.warehouse.client import Progress, Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

_BUILDS = counter("penstock_outcome_builds", "Builds of stored outcomes.", ["outcome"])
_DIFFERENCES = counter("penstock_outcome_differences", "Stored outcomes that differed from events.")
_PERIOD_S = 30.0
_MANY_UNITS = 200_000
"""From so many changed units on, a new build costs less than folding them again."""
_RETRY_MS = 600_000
"""How long an outcome is not built again after its build failed."""
_UNASKED_MS = 30 * DAY_S * 1000
"""Outcomes that no query has read for so long are dropped."""
_ASKED_OFTEN_MS = 3_600_000
"""Outcomes that a query has read within this time are kept up to date without a query."""
_BUILD_S = 4 * 3600
"""Time limit of a statement of the worker."""
_COMPARED_EVERY_MS = 600_000
"""How often some units of one outcome are compared with their events."""
_COMPARED_SHARE = 100
"""One unit of so many is compared; all of its events are read."""


class OutcomeMaintenance:
    """Builds and maintains stored outcomes, in one thread.

    Methods other than `running` and `state` block: call them from a worker thread.
    """

    def __init__(
        self, warehouse: Warehouse, subjects: SubjectReader, settings: Settings, clock: Clock
    ) -> None:
        self._warehouse, self._settings, self._clock = warehouse, settings, clock
        self.subjects = subjects
        # One process writes: numbers of inserts order what it knows, and marks are its own. So
        # there are no stored outcomes on a server that several nodes share.
        self.is_enabled = settings.stored_outcomes > 0 and warehouse.folder is not None
        self.tables = OutcomeTables(warehouse)
        self.registry = OutcomeRegistry(self.tables, clock)
        self.worker = Worker(
            "outcomes", self._step, clock, period_s=_PERIOD_S, stalled_after_s=None
        )
        self.refresher = OutcomeRefresher(self.tables, self.registry, self.worker.wake)
        self._is_loaded = False
        self._work: Work | None = None
        self._comparisons, self._compared_at_ms = 0, clock()
        self._differences = 0
        self._last_difference_at_ms: int | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. A build ends with it and begins again after the next start."""
        if not self.is_enabled:
            if self._warehouse.folder is not None:
                await to_thread.run_sync(self._drop_all)
            yield
            return
        async with self.worker.running():
            try:
                yield
            finally:
                if self._work is not None:
                    with CancelScope(shield=True):
                        # A limiter of its own: requests that hang may occupy every shared thread.
                        await to_thread.run_sync(
                            self.tables.stop, self._work, limiter=CapacityLimiter(1)
                        )

    def state(self) -> OutcomesHealth:
        """For health checks; never blocks."""
        stored = len(self.registry.marks())
        return OutcomesHealth(stored, self._differences, self._last_difference_at_ms)

    def progress(self, pending: PendingBuild) -> Progress:
        """How far a build is. `QueryFailed` and `StoreUnavailable` of the event store."""
        return self._warehouse.progress(pending.work)

    def cancel(self, pending: PendingBuild) -> None:
        """Returns when nothing of the build runs."""
        self.registry.cancel_build(pending)
        self.tables.stop(pending.work)

    def verify(self) -> Iterator[tuple[str, bool | None]]:
        """Compare all stored outcomes with their events, and build those that differ again.

        Yields funnel IDs and whether they agreed; None where that cannot be said. For a process
        without a running worker.
        """
        with self._background():
            self._load()
            for mark in self.registry.marks():
                yield mark.funnel_id, self._agrees(mark, (1, 0))
            for pending in self.registry.pending_builds():
                self._build(pending)

    def _step(self) -> None:
        with self._background():
            self._load()
            errors: list[Exception] = []  # one outcome's trouble is not another's
            tasks: list[Callable[[], None]] = [
                self._drop_unused,
                *(partial(self._build, pending) for pending in self.registry.pending_builds()),
                *(partial(self._maintain, mark) for mark in self.registry.marks()),
                self._compare_some,
            ]
            for task in tasks:
                self.worker.report_progress()
                try:
                    task()
                except (Stopped, WorkerStopped):
                    raise
                except Exception as error:
                    errors.append(error)
            if errors:
                raise errors[0]

    @contextmanager
    def _background(self) -> Iterator[None]:
        """The worker's statements. `WorkerStopped` when the service stops them."""
        try:
            with self._working_on(Work()):
                yield
        except Stopped:
            raise WorkerStopped from None

    @contextmanager
    def _working_on(self, work: Work) -> Iterator[None]:
        """Statements of one thread, so that the intake and queries keep theirs."""
        work.limits |= {
            "max_threads": 1,
            "max_execution_time": _BUILD_S,
            "max_memory_usage": self._settings.query_memory_bytes,
        }
        outer, self._work = self._work, work
        try:
            with working_on(work):
                yield
        finally:
            self._work = outer

    def _load(self) -> None:
        """At the start: load the marks that fit their rows, and drop rows that have none."""
        if self._is_loaded:
            return
        newest, fitting = self.tables.newest(), []
        for mark in self.tables.marks():
            known = newest.get(mark.build)  # None: there are no rows
            # After a kill some rows may know events that no mark counts: their deletion would
            # not be noticed.
            if known is not None and known <= mark.events_block:
                fitting.append(mark)
            else:
                log.info("outcomes_dropped", funnel_id=mark.funnel_id, reason="rows_do_not_fit")
                self.tables.save(replace(mark, build=""))
        self.tables.drop(self.tables.builds() - {mark.build for mark in fitting})
        for mark in fitting:
            self.registry.set_mark(mark, save=False)
        self._is_loaded = True

    def _drop_all(self) -> None:
        """Stored outcomes are switched off. After an error, the next start tries again."""
        try:
            if builds := self.tables.builds():
                for mark in self.tables.marks():
                    self.tables.save(replace(mark, build=""))
                self.tables.drop(builds)
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_dropped", error=str(error))

    def _drop_unused(self) -> None:
        for build in self.registry.unused_builds():
            self.tables.drop([build])
            self.registry.remove_build(build)

    def _build(self, pending: PendingBuild) -> None:
        try:
            if (
                self.registry.start_build(pending)
                and self.registry.mark(pending.subject.outcome) is None
                and self._has_room()
            ):
                self._fill(pending)
        finally:
            self.registry.end_build(pending)

    def _fill(self, pending: PendingBuild) -> None:
        subject, funnel_id = pending.subject, pending.funnel_id
        outcome, now_ms = subject.outcome, self._clock()
        build = new_id("bld", now_ms)
        mark = Mark(outcome, build, pending.workspace_id, funnel_id, 0, 0, now_ms, 0, now_ms)
        try:
            with self._working_on(pending.work):
                self.registry.set_mark(self.tables.fill(subject, mark), save=True)
        except NotStorable:
            self.registry.set_not_storable(outcome)
            self.registry.discard_build(build)
        except BaseException as error:
            self.registry.discard_build(build)
            if isinstance(error, Stopped) and pending.is_cancelled:
                _BUILDS.labels("cancelled").inc()
                log.info("outcomes_cancelled", funnel_id=funnel_id)
                return
            _BUILDS.labels("failed").inc()
            self.registry.postpone(outcome, self._clock() + _RETRY_MS)
            raise
        else:
            _BUILDS.labels("done").inc()
            took_s = (self._clock() - now_ms) / 1000
            log.info("outcomes_stored", funnel_id=funnel_id, seconds=took_s)

    def _has_room(self) -> bool:
        """Whether one more may be stored; the one that was asked for longest ago makes room."""
        marks = sorted(self.registry.marks(), key=lambda mark: mark.asked_at_ms)
        if len(marks) < self._settings.stored_outcomes:
            return True
        if self._is_asked_often(marks[0]):
            return False
        with self.registry.locked(marks[0]) as mark:
            if mark is not None:
                self.refresher.retire(mark, "room_needed")
        return True

    def _maintain(self, mark: Mark) -> None:
        """Drop what nobody needs, and fold what is too much for a query."""
        subject = self.subjects.subject_of(mark)
        with self.registry.locked(mark) as current:
            if current is None:
                return
            if subject is None:
                self.refresher.retire(current, "funnel_changed")
            elif current.asked_at_ms < self._clock() - _UNASKED_MS:
                self.refresher.retire(current, "not_asked")
            elif self._is_asked_often(current) or self.registry.is_interrupted(current.outcome):
                self._fold_many(subject, current)

    def _is_asked_often(self, mark: Mark) -> bool:
        """Of others, the next query finds out how much has changed: to look costs a scan."""
        return mark.asked_at_ms > self._clock() - _ASKED_OFTEN_MS

    def _fold_many(self, subject: Subject, mark: Mark) -> None:
        """Under the lock."""
        is_interrupted = self.registry.is_interrupted(mark.outcome)
        if is_interrupted and self.tables.newest().get(mark.build, 0) > mark.events_block:
            self._rebuild(subject, mark, "fold_failed")
            return
        backlog = self.tables.backlog(subject.website_ids, mark)
        if backlog.has_lost:
            self._rebuild(subject, mark, "events_deleted")
        elif is_interrupted or backlog.events > FEW_EVENTS // 10:
            at_ms = max(self._clock(), mark.read_until_ms)
            refreshed = self.refresher.fold_changes(subject, mark, backlog, at_ms, _MANY_UNITS)
            if refreshed is not None:
                self.registry.set_interrupted(mark.outcome, interrupted=False)
            elif self.registry.is_storable(mark.outcome):
                self._rebuild(subject, mark, "much_changed")

    def _rebuild(self, subject: Subject, mark: Mark, reason: str) -> None:
        """Under the lock."""
        self.refresher.retire(mark, reason)
        self.registry.request_build(subject, mark.workspace_id, mark.funnel_id)

    def _compare_some(self) -> None:
        """Now and then, compare some units of one outcome with their events."""
        now_ms = self._clock()
        marks = self.registry.marks()
        if not marks or now_ms < self._compared_at_ms + _COMPARED_EVERY_MS:
            return
        self._compared_at_ms = now_ms
        self._comparisons += 1
        mark = marks[self._comparisons % len(marks)]
        # Others each time, so that in the end every unit was compared.
        which = self._comparisons // len(marks) % _COMPARED_SHARE
        self._agrees(mark, (_COMPARED_SHARE, which))

    def _agrees(self, mark: Mark, share: tuple[int, int]) -> bool | None:
        """Whether rows agree with events; if not, they are dropped and built again.

        None: events were deleted meanwhile, or the funnel has changed.
        """
        subject = self.subjects.subject_of(mark)
        if subject is None:
            return None
        with self.registry.locked(mark) as current:
            agrees = None if current is None else self.tables.agrees(subject, current, share)
            if current is not None and agrees is False:
                _DIFFERENCES.inc()
                self._differences += 1
                self._last_difference_at_ms = self._clock()
                log.error("outcomes_differ", funnel_id=mark.funnel_id)
                self._rebuild(subject, current, "outcomes_differ")
        return agrees
