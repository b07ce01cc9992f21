"""Builds stored outcomes: evaluates all units of a subject at once."""

from collections.abc import Callable
from contextlib import suppress

import structlog

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import new_id
from penstock.base.metrics import counter
from penstock.funnels.outcomes import policy
from penstock.funnels.outcomes.background import BackgroundWork
from penstock.funnels.outcomes.locks import LockedOutcome, OutcomeLocks
from penstock.funnels.outcomes.model import Mark, NotStorable, PendingBuild
from penstock.funnels.outcomes.refresh import OutcomeRefresher
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.warehouse.work import Stopped

log = structlog.get_logger()

_BUILDS = counter("penstock_outcome_builds", "Builds of stored outcomes.", ["outcome"])
_SHORT_LOCK_S = 1.0
"""Seconds to wait for a lock that another node is likely to hold for a long time."""


class OutcomeBuilder:
    """Runs pending builds. Methods block, and raise the same errors as `LockedOutcome`."""

    def __init__(
        self,
        tables: OutcomeTables,
        registry: OutcomeRegistry,
        locks: OutcomeLocks,
        refresher: OutcomeRefresher,
        rows: OutcomeRows,
        background: BackgroundWork,
        clock: Clock,
        *,
        max_outcomes: int,
        is_disk_low: Callable[[], bool],
    ) -> None:
        self._tables, self._registry, self._locks = tables, registry, locks
        self._refresher, self._rows, self._background = refresher, rows, background
        self._clock, self._max_outcomes = clock, max_outcomes
        self._is_disk_low = is_disk_low

    def build(self, pending: PendingBuild) -> None:
        """Run a build. It stays pending while another node runs it, in case that node dies."""
        with self._locks.hold(pending.subject.outcome, _SHORT_LOCK_S) as locked:
            if locked is None and not pending.is_cancelled:
                return
            try:
                if locked is not None and self._is_wanted(locked, pending) and self._make_room():
                    self._fill(locked, pending)
            finally:
                self._registry.end_build(pending)

    def _is_wanted(self, locked: LockedOutcome, pending: PendingBuild) -> bool:
        """Whether a build is still wanted: neither cancelled on any node nor already done, and the
        disk has room.
        """
        outcome = pending.subject.outcome
        if self._is_disk_low():
            self._registry.postpone(outcome, policy.RETRY_MS)
            return False
        if dropped_for_ms := locked.change.dropped_for_ms(self._clock()):
            self._registry.postpone(outcome, dropped_for_ms)
            return False
        is_stored = locked.mark is not None and (
            locked.mark == self._registry.mark(outcome) or self._rows.adopt(locked) is not None
        )
        return self._registry.start_build(pending) and not is_stored

    def _make_room(self) -> bool:
        """Make room for another outcome, and return whether it may be stored.

        If necessary, retires the least recently queried outcome.
        """
        marks = sorted(self._registry.marks(), key=self._registry.queried_at_ms)
        if len(marks) < self._max_outcomes:
            return True
        if policy.is_in_use(self._registry.queried_at_ms(marks[0]), self._clock()):
            return False
        with self._locks.hold(marks[0].outcome, policy.LOCK_S) as locked:
            if locked is not None and locked.mark is not None:
                self._refresher.retire(locked, locked.mark, "room_needed")
            return locked is not None

    def _fill(self, locked: LockedOutcome, pending: PendingBuild) -> None:
        subject, funnel_id = pending.subject, pending.funnel_id
        outcome, now_ms = subject.outcome, self._clock()
        build = new_id("bld", now_ms)
        mark = Mark(outcome, build, pending.workspace_id, funnel_id, 0, 0, now_ms, 0, now_ms)
        locked.open_change(now_ms, build)
        try:
            with self._background.limit(pending.work):
                mark = locked.save(self._tables.fill(subject, mark))
        except NotStorable:
            self._registry.set_not_storable(outcome)
            self._discard(locked, build)
        except BaseException as error:
            self._discard(locked, build)
            if isinstance(error, Stopped) and pending.is_cancelled:
                _BUILDS.labels("cancelled").inc()
                log.info("outcomes_cancelled", funnel_id=funnel_id)
                return
            _BUILDS.labels("failed").inc()
            self._registry.postpone(outcome, policy.RETRY_MS)
            raise
        else:
            _BUILDS.labels("done").inc()
            took_s = (self._clock() - now_ms) / 1000
            log.info("outcomes_stored", funnel_id=funnel_id, seconds=took_s)
            if locked.is_dropped():  # A request on another node has dropped it.
                self._refresher.retire(locked, mark, "by_request")

    def _discard(self, locked: LockedOutcome, build: str) -> None:
        """Allow the rows of a failed build to be dropped."""
        self._registry.discard_build(build)
        # If this fails, the next process finds the change still open.
        with suppress(StoreUnavailable):
            locked.close_change()
