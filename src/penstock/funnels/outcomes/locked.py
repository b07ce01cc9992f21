"""Changes of an outcome, which only the process that holds its lock may make.

The metadata DB records each change of rows. A change is opened before rows are written, and closed
when their mark is saved. While it is open, the rows may include more events than the mark says, for
example because the process was killed. A change and its mark have the same number, so a process
that lost its lock can neither open another change nor save a valid mark.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

import structlog

from penstock.funnels.outcomes import nodes, store
from penstock.funnels.outcomes.cache import OutcomeCache
from penstock.funnels.outcomes.model import Backlog, Mark, NotStorable, RowChange, Subject
from penstock.settings import DAY_S

log = structlog.get_logger()

_FORGOTTEN_MS = 30 * DAY_S * 1000
"""Milliseconds after which the last change of an outcome without rows is deleted. No statement runs
that long.
"""


class LockedOutcome:
    """An outcome whose lock the caller holds: see `hold`. Methods block, and raise `QueryFailed`
    and `StoreUnavailable`.

    mark: the mark of the rows; None if no rows are in use. change: the last change of the rows.
    is_interrupted: whether that change has not ended, so that rows may include more events than the
    mark says.
    """

    def __init__(self, cache: OutcomeCache, outcome: str) -> None:
        """Read the stored change and the newest mark."""
        self._cache, self._rows = cache, cache.rows
        self.change, newest = cache.read(outcome)
        self._number = max(self.change.number, newest.number)
        self.mark = newest if newest.build else None
        # The mark that has the change's number is saved after all of the change's rows. Another
        # server of a cluster may lack it.
        is_marked = newest.number == self.change.number
        self.is_interrupted = not is_marked and (self.change.is_open or self._rows.has_copies)

    def adopt(self) -> bool:
        """Use the stored mark from now on, or retire rows that do not match it.

        Returns whether rows are in use.
        """
        if self.mark is not None and self.matches_rows(self.mark):
            self._cache.remember(self.mark)
        else:
            self.retire("rows_do_not_fit")
        return self.mark is not None

    def matches_rows(self, mark: Mark) -> bool:
        """Whether the mark is certain to count every event in the rows.

        If a process was killed, the rows may include events that the mark does not count. If these
        events were deleted, nobody would notice.
        """
        if self.is_interrupted and not self._rows.is_embedded:
            return False  # a server may still be running a statement of the change
        newest = self._rows.newest_shipment(mark.build)
        return newest is not None and newest <= mark.shipment

    def retire(self, reason: str) -> None:
        """End the use of the rows, if any are in use; the worker drops them later."""
        if self.mark is None:
            return
        log.info("outcomes_dropped", funnel_id=self.mark.funnel_id, reason=reason)
        # Save the mark first, so that rows are dropped only when no mark refers to them, even if a
        # later step fails.
        self.open_change()
        self.save(replace(self.mark, build=""))

    def fold_changes(
        self, subject: Subject, mark: Mark, backlog: Backlog, until_ms: int, max_units: int
    ) -> Mark | None:
        """Evaluate changed units again, and return the new mark.

        Returns None, without writing anything, if more than `max_units` have changed. Also returns
        None if payment events match the funnel; in that case, the rows are retired. If this fails,
        the change stays open, so that the worker finds it and evaluates the rest. until_ms: later
        events are not read.
        """
        try:
            changed = self._rows.changed_units(subject, mark, backlog, until_ms, max_units)
        except NotStorable:
            self._cache.set_not_storable(mark.outcome)
            self.retire("provider_events")
            return None
        if changed is None:
            return None
        if not changed.is_empty:
            self.open_change(until_ms)
            return self.save(self._rows.refresh(subject, mark, backlog, changed, until_ms))
        mark = self._rows.refresh(subject, mark, backlog, changed, until_ms)
        self._cache.remember(mark)
        if self.is_interrupted:
            self.close_change()
        return mark

    def open_change(self, read_until_ms: int = 0, build: str = "") -> None:
        """Record that a change of rows starts.

        read_until_ms: rows may include events up to this time. build: the build that the change
        writes. Raises `Overtaken` if another process has changed the rows.
        """
        opened = self.change._replace(
            number=self._number + 1,
            is_open=True,
            build=build,
            opened_at_ms=self._cache.clock(),
            # A build has new rows, which do not include what earlier rows did.
            read_until_ms=read_until_ms if build else max(read_until_ms, self.change.read_until_ms),
        )
        with self._cache.database.write() as db:
            store.open_change(db, self.change, opened)
        self.change, self._number = opened, opened.number

    def save(self, mark: Mark) -> Mark:
        """Save the mark of the changed rows and end the change.

        Raises `Overtaken` if the change is no longer valid.
        """
        mark = replace(mark, number=self._number)
        self._rows.save(mark)
        self.close_change()
        if mark.build:
            self._cache.remember(mark)
        else:
            self._cache.forget(mark.outcome)
        self.mark = mark if mark.build else None
        return mark

    def close_change(self) -> None:
        """End the change, after its rows are complete or if it wrote no rows.

        Raises `Overtaken` if another process has changed the rows.
        """
        with self._cache.database.write() as db:
            store.close_change(db, self.change)
        self.change = self.change._replace(is_open=False, build="")
        self.is_interrupted = False


@contextmanager
def hold(cache: OutcomeCache, outcome: str, wait_s: float) -> Iterator[LockedOutcome | None]:
    """Hold the lock that is needed to update, drop or compare an outcome's rows.

    Yields None if another thread or node still holds it after `wait_s` seconds. Blocks, and raises
    `QueryFailed` and `StoreUnavailable`.
    """
    until_s, lock = monotonic() + wait_s, cache.lock(outcome)
    if not lock.acquire(timeout=wait_s):
        yield None
        return
    try:
        with nodes.hold(cache.database, outcome, max(0.0, until_s - monotonic())) as is_mine:
            yield LockedOutcome(cache, outcome) if is_mine else None
    finally:
        lock.release()


def unfinished_builds(cache: OutcomeCache) -> set[str]:
    """Return the builds that are being made, and end those of processes that have died."""
    with cache.database.read() as db:
        changes = store.with_builds(db)
    return {change.build for change in changes if not _end_abandoned(cache, change)}


def _end_abandoned(cache: OutcomeCache, change: RowChange) -> bool:
    """End a build whose process has died or lost its lock, so that its mark is not valid.

    Returns False if the process still holds the lock.
    """
    with hold(cache, change.outcome, 0) as locked:
        if locked is None:
            return False
        if locked.change.build == change.build:
            if locked.is_interrupted:
                # The other process can then no longer save its mark.
                locked.open_change()
                locked.save(Mark.empty(change.outcome))
            else:
                locked.close_change()
        return True


def forget_old_changes(cache: OutcomeCache) -> None:
    """Delete the last change of each outcome that has had no rows for a month.

    Change numbers still only increase, because empty marks also have a number. A process that was
    overtaken before then finds that its change was deleted, and cannot continue it.
    """
    with_rows, now_ms = [mark.outcome for mark in cache.rows.marks()], cache.clock()
    with cache.database.write() as db:
        store.forget(db, now_ms - _FORGOTTEN_MS, now_ms, with_rows)
