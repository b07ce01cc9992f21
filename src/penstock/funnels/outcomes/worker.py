"""The worker that builds stored outcomes, keeps them up to date, compares them with their events,
and drops them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import structlog

from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, Malformed, NotFound, StoreUnavailable
from penstock.base.ids import WebsiteId, WorkspaceId, new_id
from penstock.base.metrics import counter
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.funnels.outcomes import policy
from penstock.funnels.outcomes.cache import OutcomeCache
from penstock.funnels.outcomes.locked import (
    LockedOutcome,
    forget_old_changes,
    hold,
    unfinished_builds,
)
from penstock.funnels.outcomes.model import (
    Mark,
    NotStorable,
    Overtaken,
    PendingBuild,
    Subject,
    Unsettled,
)
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.saved.service import FunnelService
from penstock.health.model import OutcomesHealth
from penstock.settings import DAY_S
from penstock.warehouse.client import ReadShipments
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

_BUILDS = counter("penstock_outcome_builds", "Builds of stored outcomes.", ["outcome"])
_DIFFERENCES = counter("penstock_outcome_differences", "Stored outcomes that differed from events.")
_PERIOD_S = 30.0
_DROP_ALL_AFTER_S = 2.0  # Nothing reads these rows, and there is other work at startup.
_STATEMENT_S = 4 * 3600
"""Time limit for a statement of the worker, in seconds."""


class OutcomeWorker:
    """Does all work on stored outcomes that no query waits for: one task after the other, in one
    thread.

    Methods other than `state` block, and raise `QueryFailed` and `StoreUnavailable`.
    """

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        funnels: FunnelService,
        read_shipments: ReadShipments,
    ) -> None:
        self.read_shipments = read_shipments
        self._warehouse, self._settings = core.warehouse, core.settings
        self._clock, self._attempts = core.clock, core.attempts
        self._websites, self._funnels = websites, funnels
        self.is_enabled = self._settings.stored_outcomes > 0
        self.rows = OutcomeRows(self._warehouse)
        self.cache = OutcomeCache(core.database, self.rows, self._clock)
        self.worker = Worker(
            "outcomes",
            self.step,
            self._clock,
            period_s=_PERIOD_S,
            interrupt=self._stop_statement,
            stalled_after_s=None,
        )
        self._work: Work | None = None  # controls the running statements
        self._is_prepared = self._is_loaded = False
        self._comparisons, self._compared_at_ms = 0, self._clock.elapsed_ms()
        self._forgot_at_ms: int | None = None
        self._health = OutcomesHealth(0)

    def _stop_statement(self) -> None:
        """Stop the running statement. Its build is repeated after the next start."""
        if (work := self._work) is not None:
            self.rows.stop(work)

    def state(self) -> OutcomesHealth:
        """Return the state for health checks. Never blocks."""
        return self._health._replace(stored=len(self.cache.marks()))

    def verify(self) -> Iterator[tuple[str, bool | None]]:
        """Compare all stored outcomes with their events, and rebuild outcomes that differ.

        Yields each funnel's ID, and whether its stored outcomes and events agreed; None if they
        could not be compared. Call this only in a process without a running worker.
        """
        with self._limit(Work()):
            self.read_marks()
            for mark in self.cache.marks():
                yield mark.funnel_id, self.compare(mark, (1, 0))
            for pending in self.cache.pending_builds():
                self._build(pending)

    def step(self) -> None:
        """Run one step of the worker, with all tasks that are due."""
        if not (self.is_enabled or self._is_loaded):
            self.worker.pause(_DROP_ALL_AFTER_S)
        try:
            with self._limit(Work()):
                self._run_step()
        except Stopped:
            raise WorkerStopped from None

    @contextmanager
    def _limit(self, work: Work) -> Iterator[None]:
        """Limit statements to one thread, to leave the other threads to the intake and to
        queries.
        """
        work.limits |= {
            "max_threads": 1,
            "max_execution_time": _STATEMENT_S,
            "max_memory_usage": self._settings.query_memory_bytes,
        }
        outer, self._work = self._work, work
        try:
            with working_on(work):
                yield
        finally:
            self._work = outer

    def _run_step(self) -> None:
        if not self._is_prepared:
            self._prepare()
        if self.rows.has_stopped_merges:
            self.rows.resume_merges()
        if self.is_enabled:
            self.read_marks()
            self._run_tasks(
                [
                    self.drop_unmarked,
                    *(partial(self._try_build, each) for each in self.cache.pending_builds()),
                    *(partial(self._try_maintain, mark) for mark in self.cache.marks()),
                    self._compare_sample,
                    self._forget_old_changes,
                ]
            )
        elif not self._is_loaded:
            self._drop_all()

    def _prepare(self) -> None:
        """Check at startup whether outcomes can be stored, and resume merges."""
        # Other replicated tables have copies about which Penstock knows nothing.
        is_known = self._warehouse.cluster is not None or self._warehouse.orders_inserts()
        self.is_enabled = self.is_enabled and is_known
        if self.is_enabled and not self.rows.is_embedded:
            self.rows.copy()  # Fails at once if a privilege is missing.
            try:
                self.rows.resume_merges()  # A node that was killed may have stopped them.
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

    def read_marks(self) -> None:
        """Read the marks of earlier processes and other nodes.

        The first call also drops rows without a mark, which a killed build left behind.
        """
        seen = self.cache.marks()
        stored = {mark.outcome: mark for mark in self.rows.marks()}
        for mark in seen:
            # Forget outcomes whose rows other processes have dropped.
            if mark.outcome not in stored and self.cache.mark(mark.outcome) == mark:
                self.cache.forget(mark.outcome)
        for mark in stored.values():
            if self.cache.mark(mark.outcome) is not None:
                self.cache.note_query(mark.outcome, mark.queried_at_ms)
                continue
            with hold(self.cache, mark.outcome, 0) as locked:
                if locked is not None:
                    locked.adopt()
        if not self._is_loaded:
            self.drop_unmarked(at_once=True)
            self._is_loaded = True

    def drop_unmarked(self, *, at_once: bool = False) -> None:
        """Drop rows that belong neither to a mark nor to a running build.

        at_once: include rows that a query may be about to read.
        """
        # Keep this order: a build opens its change before it writes rows, and saves its mark before
        # its change ends.
        stored = self.rows.builds()
        unfinished = unfinished_builds(self.cache)
        marked = {mark.build for mark in self.rows.marks()}
        unmarked = stored - unfinished - marked
        self.rows.drop(self.cache.unused_builds(unmarked, at_once=at_once))

    def _drop_all(self) -> None:
        """Drop all rows, because stored outcomes are switched off."""
        for mark in self.rows.marks():
            with hold(self.cache, mark.outcome, policy.LOCK_S) as locked:
                if locked is not None:
                    locked.retire("switched_off")
        self.drop_unmarked(at_once=True)
        self._is_loaded = True

    def _try_build(self, pending: PendingBuild) -> None:
        """Run a build, or postpone it if the process recently died while running it."""
        outcome = pending.subject.outcome
        if held_ms := self._attempts.held_ms(outcome):
            self.cache.postpone(outcome, held_ms)
            self.cache.end_build(pending)
            return
        with self._attempts.attempt(outcome):
            self._build(pending)
        self._attempts.forget(outcome)

    def _build(self, pending: PendingBuild) -> None:
        """Run a build. It stays pending while another node runs it, in case that node dies."""
        with hold(self.cache, pending.subject.outcome, policy.SHORT_LOCK_S) as locked:
            if locked is None and not pending.is_cancelled:
                return
            try:
                if locked is not None and self._is_wanted(locked, pending) and self._make_room():
                    self._fill(locked, pending)
            finally:
                self.cache.end_build(pending)

    def _is_wanted(self, locked: LockedOutcome, pending: PendingBuild) -> bool:
        """Whether a build is still wanted: neither cancelled on any node nor already done, and the
        disk has room.
        """
        is_disk_low = self._settings.disk_space.is_low()
        wait_ms = policy.RETRY_MS if is_disk_low else locked.change.dropped_for_ms(self._clock())
        if wait_ms:
            self.cache.postpone(pending.subject.outcome, wait_ms)
            return False
        return not pending.is_cancelled and not locked.adopt()

    def _make_room(self) -> bool:
        """Make room for another outcome, and return whether it may be stored.

        If necessary, retires the least recently queried outcome.
        """
        marks = self.cache.marks()
        if len(marks) < self._settings.stored_outcomes:
            return True
        oldest = min(marks, key=lambda mark: mark.queried_at_ms)
        if policy.is_in_use(oldest, self._clock()):
            return False
        with hold(self.cache, oldest.outcome, policy.LOCK_S) as locked:
            if locked is not None:
                locked.retire("room_needed")
            return locked is not None

    def _fill(self, locked: LockedOutcome, pending: PendingBuild) -> None:
        subject, funnel_id = pending.subject, pending.funnel_id
        outcome, now_ms = subject.outcome, self._clock()
        pending.started_at_ms = now_ms
        build = new_id("bld", now_ms)
        mark = Mark(outcome, build, pending.workspace_id, funnel_id, 0, 0, now_ms, 0, now_ms)
        locked.open_change(now_ms, build)
        try:
            with self._limit(pending.work):
                locked.save(self.rows.fill(subject, mark, self.read_shipments().complete))
        except NotStorable:
            self.cache.set_not_storable(outcome)
            self._discard(locked, build)
        except BaseException as error:
            self._discard(locked, build)
            if isinstance(error, Stopped) and pending.is_cancelled:
                _BUILDS.labels("cancelled").inc()
                log.info("outcomes_cancelled", funnel_id=funnel_id)
                return
            _BUILDS.labels("failed").inc()
            self.cache.postpone(outcome, policy.RETRY_MS)
            raise
        else:
            _BUILDS.labels("done").inc()
            took_s = (self._clock() - now_ms) / 1000
            log.info("outcomes_stored", funnel_id=funnel_id, seconds=took_s)
            if self.cache.last_change(outcome).dropped_for_ms(self._clock()):
                locked.retire("by_request")  # A request on another node has dropped it.

    def _discard(self, locked: LockedOutcome, build: str) -> None:
        """Allow the rows of a failed build to be dropped."""
        self.cache.discard_build(build)
        # If this fails, the next process finds the change still open.
        with suppress(StoreUnavailable):
            locked.close_change()

    def _try_maintain(self, mark: Mark) -> None:
        """Maintain an outcome, unless the process recently died while doing so."""
        if self._attempts.held_ms(mark.outcome):
            return
        with self._attempts.attempt(mark.outcome):
            self.maintain(mark)
        self._attempts.forget(mark.outcome)

    def maintain(self, mark: Mark) -> None:
        """Retire an unused outcome, or evaluate changes that are too many for a query to
        evaluate.
        """
        subject = self.current_subject(mark.workspace_id, mark.funnel_id, mark.outcome)
        with hold(self.cache, mark.outcome, policy.LOCK_S) as locked:
            current = None if locked is None else locked.mark
            if locked is None or current is None:
                return
            if subject is None:
                locked.retire("funnel_changed")
            elif policy.is_unused(current, self._clock()):
                locked.retire("not_queried")
            elif locked.is_interrupted or policy.is_in_use(current, self._clock()):
                self._update(subject, locked, current)

    def _update(self, subject: Subject, locked: LockedOutcome, mark: Mark) -> None:
        if locked.is_interrupted and not locked.matches_rows(mark):
            self._rebuild(subject, locked, mark, "fold_failed")
            return
        if policy.is_ahead(mark, self._clock()):
            self._rebuild(subject, locked, mark, "clock_set_back")
            return
        if self.rows.copy().is_stuck:
            self._rebuild(subject, locked, mark, "rows_lost")
            return
        shipment = self.read_shipments().complete
        backlog = self.rows.backlog(subject.website_ids, mark, shipment)
        if backlog.has_lost:
            self._rebuild(subject, locked, mark, "events_deleted")
        elif locked.is_interrupted or policy.is_worth_updating(backlog):
            until_ms, limit = max(self._clock(), mark.read_until_ms), policy.MANY_UNITS
            if locked.fold_changes(subject, mark, backlog, until_ms, limit) is None:
                self._rebuild(subject, locked, mark, "much_changed")

    def _rebuild(self, subject: Subject, locked: LockedOutcome, mark: Mark, reason: str) -> None:
        locked.retire(reason)
        self.cache.request_build(subject, mark.workspace_id, mark.funnel_id)
        self.worker.wake()

    def _compare_sample(self) -> None:
        """Every ten minutes, compare some units of one outcome with their events."""
        now_ms, marks = self._clock.elapsed_ms(), self.cache.marks()
        if not marks or now_ms < self._compared_at_ms + policy.COMPARED_EVERY_MS:
            return
        self._compared_at_ms = now_ms
        self._comparisons += 1
        index, share = policy.compared_sample(self._comparisons, len(marks))
        self.compare(marks[index], share)

    def compare(self, mark: Mark, share: tuple[int, int]) -> bool | None:
        """Whether rows agree with their events. If they do not, they are dropped and built again.

        Returns None if events were deleted in the meantime, the funnel has changed, or other work
        takes too long. share: see `Subset`.
        """
        subject = self.current_subject(mark.workspace_id, mark.funnel_id, mark.outcome)
        if subject is None:
            return None
        with hold(self.cache, mark.outcome, policy.LOCK_S) as locked:
            current = None if locked is None or locked.is_interrupted else locked.mark
            if locked is None or current is None or current.build != mark.build:
                return None
            agrees = self.rows.agrees(subject, current, share)
            if agrees is False:
                _DIFFERENCES.inc()
                self._health = OutcomesHealth(0, self._health.differences + 1, self._clock())
                log.error("outcomes_differ", funnel_id=mark.funnel_id)
                self._rebuild(subject, locked, current, "outcomes_differ")
        return agrees

    def _forget_old_changes(self) -> None:
        """Delete old changes of outcomes without rows, at startup and then once a day."""
        now_ms = self._clock.elapsed_ms()
        if self._forgot_at_ms is None or now_ms >= self._forgot_at_ms + DAY_S * 1000:
            forget_old_changes(self.cache)
            self._forgot_at_ms = now_ms

    def subject(self, workspace_id: WorkspaceId, funnel_id: str, website_id: str | None) -> Subject:
        """Return the subject for the current revision over one website, or over all websites.

        Raises NotFound for an unknown funnel, Unauthorized for a website of another workspace, and
        Conflict under the same conditions as `FunnelService.resolve`.
        """
        _, saved = self._funnels.definition_at(workspace_id, funnel_id, None)
        definition = self._funnels.resolve(workspace_id, saved)
        websites = self._websites.select_websites(workspace_id, website_id)
        return Subject(definition, tuple(WebsiteId(website.id) for website in websites))

    def current_subject(
        self, workspace_id: WorkspaceId, funnel_id: str, outcome: str
    ) -> Subject | None:
        """Return the subject with this outcome, over all websites or over one website.

        Returns None if the funnel was deleted, or if its current revision has no such subject.
        """
        try:
            everywhere = self.subject(workspace_id, funnel_id, None)
        except (NotFound, Malformed, Conflict):
            return None
        scopes = (everywhere.website_ids, *((each,) for each in everywhere.website_ids))
        subjects = (replace(everywhere, website_ids=scope) for scope in scopes)
        return next((subject for subject in subjects if subject.outcome == outcome), None)
