"""The worker that builds stored outcomes, keeps them up to date, compares and drops them."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

import structlog
from anyio import CancelScope, CapacityLimiter, to_thread

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import new_id
from penstock.base.metrics import counter
from penstock.base.worker import Worker, WorkerStopped
from penstock.funnels.outcomes.locks import LockedOutcome, OutcomeLocks
from penstock.funnels.outcomes.model import (
    Mark,
    NotStorable,
    Overtaken,
    PendingBuild,
    RowChange,
    Subject,
    Unsettled,
)
from penstock.funnels.outcomes.refresh import FEW_EVENTS, OutcomeRefresher
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.subjects import SubjectReader
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.health.model import OutcomesHealth
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings
from penstock.warehouse.client import Progress, Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

_BUILDS = counter("penstock_outcome_builds", "Builds of stored outcomes.", ["outcome"])
_DIFFERENCES = counter("penstock_outcome_differences", "Stored outcomes that differed from events.")
_PERIOD_S = 30.0
_DROP_ALL_AFTER_S = 2.0  # nothing reads these rows, and a start has other work
_LOCK_S = 5.0
"""Seconds that the worker waits for a lock before it continues with other work."""
_SHORT_LOCK_S = 1.0
"""The same where another node is likely to hold it for a long time."""
_MANY_UNITS = 200_000
"""Number of changed units from which a new build costs less than evaluating them again."""
_RETRY_MS = 600_000
"""Time between a failed build and the next try."""
_UNUSED_MS = 30 * DAY_S * 1000
"""Time after its last query when an outcome is dropped."""
_RECENT_QUERY_MS = 3_600_000
"""Outcomes that a query has read within this time are kept up to date without a query."""
_BUILD_S = 4 * 3600
"""Time limit of a statement of the worker."""
_COMPARED_EVERY_MS = 600_000
"""How often some units of one outcome are compared with their events."""
_COMPARED_SHARE = 100
"""One of this many units is compared; all of its events are read."""


class OutcomeMaintenance:
    """Builds and maintains stored outcomes, in one thread.

    Methods other than `running` and `state` block: call them from a worker thread.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        database: Database,
        subjects: SubjectReader,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._warehouse, self._settings, self._clock = warehouse, settings, clock
        self.subjects = subjects
        self.is_enabled = settings.stored_outcomes > 0 and warehouse.cluster is None
        self.tables = OutcomeTables(warehouse)
        self.registry = OutcomeRegistry(clock)
        self.locks = OutcomeLocks(database, self.tables, self.registry, clock)
        self.worker = Worker(
            "outcomes", self._step, clock, period_s=_PERIOD_S, stalled_after_s=None
        )
        self.refresher = OutcomeRefresher(self.tables, self.registry, self.worker.wake)
        self._is_prepared = self._is_loaded = False
        self._work: Work | None = None
        self._comparisons, self._compared_at_ms = 0, clock.elapsed_ms()
        self._forgot_at_ms: int | None = None
        self._differences = 0
        self._last_difference_at_ms: int | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. A build stops with it, and is repeated after the next start."""
        if self._warehouse.cluster is not None:
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

    @property
    def is_embedded(self) -> bool:
        """Whether the event store is in this process."""
        return self._warehouse.folder is not None

    def state(self) -> OutcomesHealth:
        """For health checks; never blocks."""
        stored = len(self.registry.marks())
        return OutcomesHealth(stored, self._differences, self._last_difference_at_ms)

    def progress(self, pending: PendingBuild) -> Progress:
        """Progress of a build. `QueryFailed` and `StoreUnavailable` of the event store."""
        return self._warehouse.progress(pending.work)

    def cancel(self, pending: PendingBuild) -> None:
        """Cancel a build. Returns as `OutcomeTables.stop`."""
        self.registry.cancel_build(pending)
        self.tables.stop(pending.work)

    def verify(self) -> Iterator[tuple[str, bool | None]]:
        """Compare all stored outcomes with their events, and build those that differ again.

        Yields funnel IDs and whether stored outcomes and events agreed; None where they could not
        be compared. For a process without a running worker.
        """
        with self._background():
            self._read_marks()
            for mark in self.registry.marks():
                yield mark.funnel_id, self._agrees(mark, (1, 0))
            for pending in self.registry.pending_builds():
                self._build(pending)

    def _step(self) -> None:
        if not (self.is_enabled or self._is_loaded):
            self.worker.pause(_DROP_ALL_AFTER_S)
        with self._background():
            if not self._is_prepared:
                self._prepare()
            if self.tables.has_stopped_merges:
                self.tables.resume_merges()
            if not self.is_enabled:
                if not self._is_loaded:
                    self._drop_all()
                return
            self._read_marks()
            errors: list[Exception] = []  # an error of one outcome must not stop the others
            tasks: list[Callable[[], None]] = [
                self._drop_unused,
                *(partial(self._build, pending) for pending in self.registry.pending_builds()),
                *(partial(self._maintain, mark) for mark in self.registry.marks()),
                self._compare_sample,
                self._forget_old_changes,
            ]
            for task in tasks:
                self.worker.report_progress()
                try:
                    task()
                except (Stopped, WorkerStopped):
                    raise
                except Overtaken:  # by another node, which now does the same
                    log.warning("outcomes_overtaken")
                except Unsettled:  # tried again at the next step
                    log.info("outcomes_unsettled")
                except Exception as error:
                    errors.append(error)
            if errors:
                raise errors[0]

    def _prepare(self) -> None:
        """Check at the start whether outcomes can be stored, and resume merges."""
        self.is_enabled = self.is_enabled and self._warehouse.orders_inserts()
        if self.is_enabled and not self.is_embedded:
            try:
                self.tables.resume_merges()  # a killed node may have stopped them
            except QueryFailed as error:  # such as for lack of the privilege
                log.warning("merges_not_resumed", error=str(error))
        self._is_prepared = True

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
        """Limit statements to one thread, to leave the others to the intake and queries."""
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

    def _read_marks(self) -> None:
        """Read the marks of earlier processes and other nodes.

        The first time, also drop rows without a mark: those of a build that was killed.
        """
        seen = self.registry.marks()
        marks = self.tables.marks()
        self.registry.forget_dropped(seen, marks)
        known = {mark.outcome for mark in self.registry.marks()}
        for mark in marks:
            self.registry.note_query(mark.outcome, mark.queried_at_ms)
            if mark.outcome not in known:
                with self.locks.locked(mark.outcome, 0) as locked:
                    if locked is not None:
                        self._adopt(locked)
        if not self._is_loaded:
            self._drop_unmarked(at_once=True)
            self._is_loaded = True

    def _adopt(self, locked: LockedOutcome) -> Mark | None:
        """Use a stored mark from now on. None, after retiring its rows, if they do not match it."""
        mark = locked.mark
        if mark is None:
            return None
        newest = self.tables.newest(mark.build)
        # After a kill, rows may include events that no mark counts. A deletion of these events
        # would go unnoticed.
        if newest is None or newest > mark.events_block or self._may_still_change(locked):
            self.refresher.retire(locked, mark, "rows_do_not_fit")
            return None
        self.registry.remember(mark)
        return mark

    def _may_still_change(self, locked: LockedOutcome) -> bool:
        """Whether a server may still run a statement of an interrupted change."""
        return locked.is_interrupted and not self.is_embedded

    def _drop_all(self) -> None:
        """Drop all rows, because stored outcomes are switched off."""
        for mark in self.tables.marks():
            with self.locks.locked(mark.outcome, _LOCK_S) as locked:
                if locked is not None and locked.mark is not None:
                    self.refresher.retire(locked, locked.mark, "switched_off")
        self._drop_unmarked(at_once=True)
        self._is_loaded = True

    def _drop_unused(self) -> None:
        self._drop_unmarked(at_once=False)

    def _drop_unmarked(self, *, at_once: bool) -> None:
        """Drop rows that belong neither to a mark nor to a running build."""
        # Read in this order: a build opens its change before it writes rows, and saves its mark
        # before its change ends.
        stored = self.tables.builds()
        unfinished = {
            change.build for change in self.locks.builds() if not self._is_abandoned(change)
        }
        marked = {mark.build for mark in self.tables.marks()}
        self.tables.drop(self.registry.unused_builds(stored - unfinished - marked, at_once=at_once))

    def _is_abandoned(self, change: RowChange) -> bool:
        """Whether the node of a build has died or lost its lock, so that its mark is not valid."""
        with self.locks.locked(change.outcome, 0) as locked:
            if locked is None:
                return False
            if locked.change.build == change.build:
                if locked.is_interrupted:
                    locked.overtake()
                else:
                    locked.close_change()
            return True

    def _build(self, pending: PendingBuild) -> None:
        """Run a build. It stays pending while another node runs it, in case that node dies."""
        with self.locks.locked(pending.subject.outcome, _SHORT_LOCK_S) as locked:
            if locked is None and not pending.is_cancelled:
                return
            try:
                if locked is not None and self._is_wanted(locked, pending) and self._has_room():
                    self._fill(locked, pending)
            finally:
                self.registry.end_build(pending)

    def _is_wanted(self, locked: LockedOutcome, pending: PendingBuild) -> bool:
        """Whether a build was neither cancelled, at any node, nor already done."""
        outcome = pending.subject.outcome
        if dropped_for_ms := locked.change.dropped_for_ms(self._clock()):
            self.registry.postpone(outcome, dropped_for_ms)
            return False
        is_stored = locked.mark is not None and (
            locked.mark == self.registry.mark(outcome) or self._adopt(locked) is not None
        )
        return self.registry.start_build(pending) and not is_stored

    def _fill(self, locked: LockedOutcome, pending: PendingBuild) -> None:
        subject, funnel_id = pending.subject, pending.funnel_id
        outcome, now_ms = subject.outcome, self._clock()
        build = new_id("bld", now_ms)
        mark = Mark(outcome, build, pending.workspace_id, funnel_id, 0, 0, now_ms, 0, now_ms)
        locked.open_change(now_ms, build)
        try:
            with self._working_on(pending.work):
                mark = locked.save(self.tables.fill(subject, mark))
        except NotStorable:
            self.registry.set_not_storable(outcome)
            self._discard(locked, build)
        except BaseException as error:
            self._discard(locked, build)
            if isinstance(error, Stopped) and pending.is_cancelled:
                _BUILDS.labels("cancelled").inc()
                log.info("outcomes_cancelled", funnel_id=funnel_id)
                return
            _BUILDS.labels("failed").inc()
            self.registry.postpone(outcome, _RETRY_MS)
            raise
        else:
            _BUILDS.labels("done").inc()
            took_s = (self._clock() - now_ms) / 1000
            log.info("outcomes_stored", funnel_id=funnel_id, seconds=took_s)
            if locked.is_dropped():  # by a request at another node
                self.refresher.retire(locked, mark, "by_request")

    def _discard(self, locked: LockedOutcome, build: str) -> None:
        """Let the rows of a failed build be dropped."""
        self.registry.discard_build(build)
        with suppress(StoreUnavailable):  # then the next process finds the change open
            locked.close_change()

    def _has_room(self) -> bool:
        """Whether another outcome may be stored; the least recently queried one makes room."""
        marks = sorted(self.registry.marks(), key=self.registry.queried_at_ms)
        if len(marks) < self._settings.stored_outcomes:
            return True
        if self._is_in_use(marks[0]):
            return False
        with self.locks.locked(marks[0].outcome, _LOCK_S) as locked:
            if locked is not None and locked.mark is not None:
                self.refresher.retire(locked, locked.mark, "room_needed")
            return locked is not None

    def _maintain(self, mark: Mark) -> None:
        """Retire an outcome that is no longer used, or evaluate what is too much for a query."""
        subject = self.subjects.subject_of(mark)
        with self.locks.locked(mark.outcome, _LOCK_S) as locked:
            current = None if locked is None else locked.mark
            if locked is None or current is None:
                return
            if subject is None:
                self.refresher.retire(locked, current, "funnel_changed")
            elif self.registry.queried_at_ms(current) < self._clock() - _UNUSED_MS:
                self.refresher.retire(locked, current, "not_queried")
            elif self._is_in_use(current) or locked.is_interrupted:
                self._fold_many(subject, locked, current)

    def _is_in_use(self, mark: Mark) -> bool:
        """Whether to keep it up to date without a query. Looking for changes costs a scan."""
        return self.registry.queried_at_ms(mark) > self._clock() - _RECENT_QUERY_MS

    def _fold_many(self, subject: Subject, locked: LockedOutcome, mark: Mark) -> None:
        is_interrupted = locked.is_interrupted
        if is_interrupted:
            newest = self.tables.newest(mark.build)
            if self._may_still_change(locked) or newest is None or newest > mark.events_block:
                self._rebuild(subject, locked, mark, "fold_failed")
                return
        backlog = self.tables.backlog(subject.website_ids, mark)
        if backlog.has_lost:
            self._rebuild(subject, locked, mark, "events_deleted")
        elif is_interrupted or backlog.events > FEW_EVENTS // 10:
            at_ms = max(self._clock(), mark.read_until_ms)
            refreshed = self.refresher.fold_changes(
                subject, locked, mark, backlog, at_ms, _MANY_UNITS
            )
            if refreshed is not None:
                if locked.is_interrupted:
                    locked.close_change()
            elif self.registry.is_storable(mark.outcome):
                self._rebuild(subject, locked, mark, "much_changed")

    def _rebuild(self, subject: Subject, locked: LockedOutcome, mark: Mark, reason: str) -> None:
        self.refresher.retire(locked, mark, reason)
        self.registry.request_build(subject, mark.workspace_id, mark.funnel_id)

    def _forget_old_changes(self) -> None:
        """Delete old changes of outcomes without rows, once a day and after a start."""
        now_ms = self._clock.elapsed_ms()
        if self._forgot_at_ms is None or now_ms >= self._forgot_at_ms + DAY_S * 1000:
            self.locks.forget_old()
            self._forgot_at_ms = now_ms

    def _compare_sample(self) -> None:
        """Every ten minutes, compare some units of one outcome with their events."""
        now_ms = self._clock.elapsed_ms()
        marks = self.registry.marks()
        if not marks or now_ms < self._compared_at_ms + _COMPARED_EVERY_MS:
            return
        self._compared_at_ms = now_ms
        self._comparisons += 1
        mark = marks[self._comparisons % len(marks)]
        # A different share each time, so that every unit is compared in the end.
        which = self._comparisons // len(marks) % _COMPARED_SHARE
        self._agrees(mark, (_COMPARED_SHARE, which))

    def _agrees(self, mark: Mark, share: tuple[int, int]) -> bool | None:
        """Whether rows agree with events; if not, they are dropped and built again.

        None: events were deleted meanwhile, the funnel has changed, or other work takes long.
        """
        subject = self.subjects.subject_of(mark)
        if subject is None:
            return None
        with self.locks.locked(mark.outcome, _LOCK_S) as locked:
            current = None if locked is None or locked.is_interrupted else locked.mark
            if locked is None or current is None or current.build != mark.build:
                return None
            agrees = self.tables.agrees(subject, current, share)
            if agrees is False:
                _DIFFERENCES.inc()
                self._differences += 1
                self._last_difference_at_ms = self._clock()
                log.error("outcomes_differ", funnel_id=mark.funnel_id)
                self._rebuild(subject, locked, current, "outcomes_differ")
        return agrees
