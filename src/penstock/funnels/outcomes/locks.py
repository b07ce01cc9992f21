"""Locks for stored outcomes. Only one process on any node changes an outcome's rows at a time.

Only this module knows of other nodes. A process needs `OutcomeLocks.hold` before it changes rows;
with SQLite, there are no other nodes, and the lock is one of the process.

With PostgreSQL, it also holds an advisory lock, which the database releases when a node dies. A
process can lose the advisory lock without noticing, so the metadata DB also records each change of
rows. A change is opened before rows are written, and closed when their mark is saved. While it is
open, the rows may include more events than the mark says. A change and its mark have the same
number, so a process that lost its lock can neither open another change nor save a valid mark.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import BoundedSemaphore, Lock
from time import monotonic

from penstock.base.clock import Clock
from penstock.funnels.outcomes.cache import OutcomeCache
from penstock.funnels.outcomes.locked import LockedOutcome
from penstock.funnels.outcomes.model import Mark, RowChange
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.outcomes.store import RowChanges
from penstock.metadb.database import Database
from penstock.settings import DAY_S

_FORGOTTEN_MS = 30 * DAY_S * 1000
"""Milliseconds after which the last change of an outcome without rows is deleted. No statement runs
that long.
"""
_LOCKS_AT_ONCE = 6
"""Maximum number of locks per process. Each occupies one or two connections to PostgreSQL."""


class OutcomeLocks:
    """Locks outcomes. Methods block, and raise `QueryFailed` and `StoreUnavailable`.

    changes: the records of changes, which all nodes share.
    """

    def __init__(
        self, database: Database, rows: OutcomeRows, cache: OutcomeCache, clock: Clock
    ) -> None:
        self._database, self._rows, self._cache, self._clock = database, rows, cache, clock
        self.changes = RowChanges(database)
        self._at_once = BoundedSemaphore(_LOCKS_AT_ONCE)
        self._state = Lock()  # guards the field below it
        self._locks: dict[str, Lock] = {}

    @contextmanager
    def hold(self, outcome: str, wait_s: float) -> Iterator[LockedOutcome | None]:
        """Hold the lock that is needed to update, drop or compare rows.

        Yields None if another process still holds it after `wait_s` seconds.
        """
        until_s = monotonic() + wait_s
        with ExitStack() as held:
            for lock in (self._lock(outcome), self._at_once):
                if not lock.acquire(timeout=max(0.0, until_s - monotonic())):
                    yield None
                    return
                held.callback(lock.release)
            wait_s = max(0.0, until_s - monotonic())
            with self._database.exclusive_lock(_lock_number(outcome), wait_s) as is_mine:
                yield self._locked(outcome) if is_mine else None

    def _lock(self, outcome: str) -> Lock:
        with self._state:
            return self._locks.setdefault(outcome, Lock())

    def _locked(self, outcome: str) -> LockedOutcome:
        change = self.changes.last(outcome)
        newest = self._newest_mark(change)
        return LockedOutcome(self._rows, self._cache, self.changes, self._clock, change, newest)

    def mark(self, outcome: str) -> Mark | None:
        """Return the mark of the rows; None if no rows are in use.

        While a change is open, the rows may include more events than the mark says.
        """
        mark = self._newest_mark(self.changes.last(outcome))
        return mark if mark.build else None

    def read_until_ms(self, outcome: str, build: str) -> int | None:
        """Return the latest time of events that rows of a build may include.

        Returns None if the build is no longer in use.
        """
        change = self.changes.last(outcome)
        mark = self._newest_mark(change)
        return max(change.read_until_ms, mark.read_until_ms) if mark.build == build else None

    def _newest_mark(self, change: RowChange) -> Mark:
        """Return the newest mark, from memory if the known mark belongs to the last change."""
        known = self._cache.mark(change.outcome)
        if known is not None and known.number == change.number:
            return known
        return self._rows.newest_mark(change.outcome)

    def unfinished_builds(self) -> set[str]:
        """Return the builds that a node is making, and end those of nodes that have died."""
        changes = self.changes.with_builds()
        return {change.build for change in changes if not self._end_abandoned(change)}

    def _end_abandoned(self, change: RowChange) -> bool:
        """End a build whose node has died or lost its lock, so that its mark is not valid.

        Returns False if the node still holds the lock.
        """
        with self.hold(change.outcome, 0) as locked:
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

    def built_elsewhere_since_ms(self, outcome: str) -> int | None:
        """Return when a node began to build the outcome.

        Returns None if none is building it, or if somebody has cancelled the build.
        """
        change = self.changes.last(outcome)
        is_cancelled = change.dropped_for_ms(self._clock()) > 0
        is_built = bool(change.build) and not is_cancelled and self._is_locked(outcome)
        return change.opened_at_ms if is_built else None

    def _is_locked(self, outcome: str) -> bool:
        """Whether any process of the installation holds the lock now."""
        return self._lock(outcome).locked() or self._database.is_running(_lock_number(outcome))

    def forget_old(self) -> None:
        """Delete the last change of each outcome that has had no rows for a month.

        Change numbers still only increase, because empty marks also have a number. A process that
        was overtaken before then finds that its change was deleted, and cannot continue it.
        """
        with_rows = [mark.outcome for mark in self._rows.marks()]
        now_ms = self._clock()
        self.changes.forget(now_ms - _FORGOTTEN_MS, now_ms, with_rows)


def _lock_number(outcome: str) -> int:
    """Return the number of the outcome's advisory lock: the first 63 bits of its name."""
    return int(outcome[:16], 16) >> 1
