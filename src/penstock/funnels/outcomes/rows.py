"""Tracks the stored rows that this process uses, and rows that are no longer used."""

from penstock.funnels.outcomes import policy
from penstock.funnels.outcomes.locks import LockedOutcome, OutcomeLocks
from penstock.funnels.outcomes.model import Mark, RowChange
from penstock.funnels.outcomes.refresh import OutcomeRefresher
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.tables import OutcomeTables


class OutcomeRows:
    """Adopts the rows of earlier processes and other nodes, and drops rows without a mark.

    Methods block, and raise the same errors as `LockedOutcome`.
    """

    def __init__(
        self,
        tables: OutcomeTables,
        registry: OutcomeRegistry,
        locks: OutcomeLocks,
        refresher: OutcomeRefresher,
        *,
        is_embedded: bool,
    ) -> None:
        """Create the object without reading anything.

        is_embedded: whether the event store runs in this process.
        """
        self._tables, self._registry = tables, registry
        self._locks, self._refresher = locks, refresher
        self._is_embedded = is_embedded
        self.is_loaded = False

    def read_marks(self) -> None:
        """Read the marks of earlier processes and other nodes.

        The first call also drops rows without a mark, which a killed build left behind.
        """
        seen = self._registry.marks()
        marks = self._tables.marks()
        self._registry.forget_dropped(seen, marks)
        known = {mark.outcome for mark in self._registry.marks()}
        for mark in marks:
            self._registry.note_query(mark.outcome, mark.queried_at_ms)
            if mark.outcome not in known:
                with self._locks.hold(mark.outcome, 0) as locked:
                    if locked is not None:
                        self.adopt(locked)
        if not self.is_loaded:
            self.drop_unmarked(at_once=True)
            self.is_loaded = True

    def adopt(self, locked: LockedOutcome) -> Mark | None:
        """Use a stored mark from now on, and return it.

        If the rows do not match the mark, they are retired, and the result is None.
        """
        mark = locked.mark
        if mark is None:
            return None
        if self.may_still_change(locked) or not self.fit(mark):
            self._refresher.retire(locked, mark, "rows_do_not_fit")
            return None
        self._registry.remember(mark)
        return mark

    def fit(self, mark: Mark) -> bool:
        """Whether the mark counts every event in the rows."""
        return policy.rows_fit(mark, self._tables.newest_insert(mark.build))

    def may_still_change(self, locked: LockedOutcome) -> bool:
        """Whether a server may still be running a statement from an interrupted change."""
        return locked.is_interrupted and not self._is_embedded

    def drop_all(self) -> None:
        """Drop all rows, because stored outcomes are switched off."""
        for mark in self._tables.marks():
            with self._locks.hold(mark.outcome, policy.LOCK_S) as locked:
                if locked is not None and locked.mark is not None:
                    self._refresher.retire(locked, locked.mark, "switched_off")
        self.drop_unmarked(at_once=True)
        self.is_loaded = True

    def drop_unmarked(self, *, at_once: bool = False) -> None:
        """Drop rows that belong neither to a mark nor to a running build.

        at_once: include rows that a query may be about to read.
        """
        # Keep this order: a build opens its change before it writes rows, and saves its mark before
        # its change ends.
        stored = self._tables.builds()
        unfinished = {
            change.build for change in self._locks.builds() if not self._is_abandoned(change)
        }
        marked = {mark.build for mark in self._tables.marks()}
        unmarked = stored - unfinished - marked
        self._tables.drop(self._registry.unused_builds(unmarked, at_once=at_once))

    def _is_abandoned(self, change: RowChange) -> bool:
        """Whether the node of a build has died or lost its lock, so that its mark is not valid."""
        with self._locks.hold(change.outcome, 0) as locked:
            if locked is None:
                return False
            if locked.change.build == change.build:
                if locked.is_interrupted:
                    locked.overtake()
                else:
                    locked.close_change()
            return True
