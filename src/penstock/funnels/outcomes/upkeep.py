"""Maintains stored outcomes: updates them, compares them with their events, and retires them."""

import structlog

from penstock.base.clock import Clock
from penstock.base.metrics import counter
from penstock.funnels.outcomes import policy
from penstock.funnels.outcomes.locks import LockedOutcome, OutcomeLocks
from penstock.funnels.outcomes.model import Mark, Subject
from penstock.funnels.outcomes.policy import Upkeep
from penstock.funnels.outcomes.refresh import OutcomeRefresher
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.outcomes.subjects import SubjectReader
from penstock.funnels.outcomes.tables import OutcomeTables

log = structlog.get_logger()

_DIFFERENCES = counter("penstock_outcome_differences", "Stored outcomes that differed from events.")
_COMPARED_EVERY_MS = 600_000
"""Time between two comparisons of some units of an outcome with their events, in milliseconds."""


class OutcomeUpkeep:
    """Keeps this process's outcomes correct.

    Methods block, and raise the same errors as `LockedOutcome`.
    differences: number of comparisons that found a difference. last_difference_at_ms: time of the
    latest such comparison.
    """

    def __init__(
        self,
        tables: OutcomeTables,
        registry: OutcomeRegistry,
        locks: OutcomeLocks,
        refresher: OutcomeRefresher,
        rows: OutcomeRows,
        subjects: SubjectReader,
        clock: Clock,
    ) -> None:
        self._tables, self._registry, self._locks = tables, registry, locks
        self._refresher, self._rows, self._subjects = refresher, rows, subjects
        self._clock = clock
        self._comparisons, self._compared_at_ms = 0, clock.elapsed_ms()
        self.differences = 0
        self.last_difference_at_ms: int | None = None

    def maintain(self, mark: Mark) -> None:
        """Retire an unused outcome, or evaluate changes that are too many for a query to
        evaluate.
        """
        subject = self._subjects.subject_of(mark)
        with self._locks.hold(mark.outcome, policy.LOCK_S) as locked:
            current = None if locked is None else locked.mark
            if locked is None or current is None:
                return
            if subject is None:
                self._refresher.retire(locked, current, "funnel_changed")
                return
            queried_at_ms = self._registry.queried_at_ms(current)
            match policy.upkeep(queried_at_ms, self._clock(), is_interrupted=locked.is_interrupted):
                case Upkeep.DROP:
                    self._refresher.retire(locked, current, "not_queried")
                case Upkeep.UPDATE:
                    self._update(subject, locked, current)

    def _update(self, subject: Subject, locked: LockedOutcome, mark: Mark) -> None:
        if locked.is_interrupted and (
            self._rows.may_still_change(locked) or not self._rows.fit(mark)
        ):
            self._rebuild(subject, locked, mark, "fold_failed")
            return
        if policy.is_ahead(mark, self._clock()):
            self._rebuild(subject, locked, mark, "clock_set_back")
            return
        backlog = self._tables.backlog(subject.website_ids, mark)
        if backlog.has_lost:
            self._rebuild(subject, locked, mark, "events_deleted")
        elif locked.is_interrupted or policy.is_worth_updating(backlog):
            at_ms = max(self._clock(), mark.read_until_ms)
            refreshed = self._refresher.fold_changes(
                subject, locked, mark, backlog, at_ms, policy.MANY_UNITS
            )
            if refreshed is not None:
                if locked.is_interrupted:
                    locked.close_change()
            elif self._registry.is_storable(mark.outcome):
                self._rebuild(subject, locked, mark, "much_changed")

    def _rebuild(self, subject: Subject, locked: LockedOutcome, mark: Mark, reason: str) -> None:
        self._refresher.retire(locked, mark, reason)
        self._registry.request_build(subject, mark.workspace_id, mark.funnel_id)

    def compare_sample(self) -> None:
        """Every ten minutes, compare some units of one outcome with their events."""
        now_ms = self._clock.elapsed_ms()
        marks = self._registry.marks()
        if not marks or now_ms < self._compared_at_ms + _COMPARED_EVERY_MS:
            return
        self._compared_at_ms = now_ms
        self._comparisons += 1
        place, share = policy.compared_sample(self._comparisons, len(marks))
        self.compare(marks[place], share)

    def compare(self, mark: Mark, share: tuple[int, int]) -> bool | None:
        """Whether rows agree with their events. If they do not, they are dropped and built again.

        Returns None if events were deleted in the meantime, the funnel has changed, or other work
        takes too long. share: see `Subset`.
        """
        subject = self._subjects.subject_of(mark)
        if subject is None:
            return None
        with self._locks.hold(mark.outcome, policy.LOCK_S) as locked:
            current = None if locked is None or locked.is_interrupted else locked.mark
            if locked is None or current is None or current.build != mark.build:
                return None
            agrees = self._tables.agrees(subject, current, share)
            if agrees is False:
                _DIFFERENCES.inc()
                self.differences += 1
                self.last_difference_at_ms = self._clock()
                log.error("outcomes_differ", funnel_id=mark.funnel_id)
                self._rebuild(subject, locked, current, "outcomes_differ")
        return agrees
