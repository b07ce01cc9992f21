"""Changes of an outcome, which only the process that holds its lock may make."""

from dataclasses import replace

import structlog

from penstock.base.clock import Clock
from penstock.funnels.outcomes.cache import OutcomeCache
from penstock.funnels.outcomes.model import Backlog, Mark, NotStorable, RowChange, Subject
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.outcomes.store import RowChanges

log = structlog.get_logger()


class LockedOutcome:
    """An outcome whose lock the caller holds. Methods block, and raise the same errors as
    `OutcomeLocks`.

    mark: the mark of the rows; None if no rows are in use. change: the last change of the rows.
    is_interrupted: whether that change has not ended, so that rows may include more events than the
    mark says.
    """

    def __init__(
        self,
        rows: OutcomeRows,
        cache: OutcomeCache,
        changes: RowChanges,
        clock: Clock,
        change: RowChange,
        newest: Mark,
    ) -> None:
        """Create the object from the stored change and the newest mark, which may be empty."""
        self._rows, self._cache, self._changes, self._clock = rows, cache, changes, clock
        self._number = max(change.number, newest.number)
        self.change, self.mark = change, newest if newest.build else None
        # The mark that has the change's number is saved after all of the change's rows.
        self.is_interrupted = change.is_open and newest.number != change.number

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
        newest = self._rows.newest_insert(mark.build)
        return newest is not None and newest <= mark.events_block

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
            opened_at_ms=self._clock(),
            # A build has new rows, which do not include what earlier rows did.
            read_until_ms=read_until_ms if build else max(read_until_ms, self.change.read_until_ms),
        )
        self._changes.open(self.change, opened)
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
        self._changes.close(self.change)
        self.change = self.change._replace(is_open=False, build="")
        self.is_interrupted = False
