"""Locks for stored outcomes. Only one process on any node changes an outcome's rows at a time.

Each process has its own lock and, on PostgreSQL, an advisory lock, which the database releases
when a node dies. A process can lose the advisory lock without noticing, so the metadata DB also
records each change of rows. A change is opened before rows are written, and closed when their mark
is saved. While it is open, the rows may include more events than the mark says. A change and its
mark have the same number, so a process that lost its lock can neither open another change nor save
a valid mark.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import BoundedSemaphore, Lock
from time import monotonic

from penstock.base.clock import Clock
from penstock.funnels.outcomes import store
from penstock.funnels.outcomes.model import Mark, Overtaken, RowChange
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.metadb.database import Database
from penstock.settings import DAY_S


class LockedOutcome:
    """An outcome whose lock the caller holds. Methods block, and raise the same errors as
    `OutcomeLocks`.

    mark: the mark of the rows; None if no rows are in use. change: the last change of the rows.
    is_interrupted: whether that change has not ended.
    """

    def __init__(
        self,
        database: Database,
        tables: OutcomeTables,
        registry: OutcomeRegistry,
        clock: Clock,
        change: RowChange,
        newest: Mark | None,
    ) -> None:
        """Create the object from the stored change and mark.

        newest: the newest mark, even if its rows were dropped.
        """
        self._database, self._tables, self._clock = database, tables, clock
        self._registry, self.change = registry, change
        self._number = max(change.number, 0 if newest is None else newest.number)
        self.outcome = change.outcome
        self.mark = newest if newest is not None and newest.build else None
        # The mark that has the change's number is saved after all of the change's rows.
        is_saved = newest is not None and newest.number == change.number
        self.is_interrupted = change.is_open and not is_saved

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
        with self._database.write() as db:
            if not store.open_change(db, self.change, opened):
                raise Overtaken
        self.change, self._number = opened, opened.number

    def save(self, mark: Mark) -> Mark:
        """Save the mark of the changed rows and end the change.

        Raises `Overtaken` if the change is no longer valid.
        """
        mark = replace(mark, number=self._number)
        self._tables.save(mark)
        self.close_change()
        if mark.build:
            self._registry.remember(mark)
        else:
            self._registry.forget(mark.outcome)
        self.mark = mark if mark.build else None
        return mark

    def close_change(self) -> None:
        """End the change, after its rows are complete or if it wrote no rows.

        Raises `Overtaken` if another process has changed the rows.
        """
        with self._database.write() as db:
            if not store.close_change(db, self.change):
                raise Overtaken
        self.change = self.change._replace(is_open=False, build="")
        self.is_interrupted = False

    def overtake(self) -> None:
        """End the open change of another process, which can then no longer save its mark."""
        self.open_change()
        self.save(Mark.empty(self.outcome))

    def is_dropped(self) -> bool:
        """Whether a request to any node dropped the outcome, so that it must not be built."""
        with self._database.read() as db:
            return store.find(db, self.outcome).dropped_for_ms(self._clock()) > 0


_FORGOTTEN_MS = 30 * DAY_S * 1000
"""Milliseconds after which the last change of an outcome without rows is deleted. No statement runs
that long.
"""
_LOCKS_AT_ONCE = 6
"""Maximum number of locks per process. Each occupies one or two connections to PostgreSQL."""


class OutcomeLocks:
    """Locks outcomes. Methods block, and raise `QueryFailed` and `StoreUnavailable`."""

    def __init__(
        self, database: Database, tables: OutcomeTables, registry: OutcomeRegistry, clock: Clock
    ) -> None:
        self._database, self._tables = database, tables
        self._registry, self._clock = registry, clock
        self._at_once = BoundedSemaphore(_LOCKS_AT_ONCE)
        self._state = Lock()  # guards the field below it
        self._locks: dict[str, Lock] = {}

    @contextmanager
    def hold(self, outcome: str, wait_s: float) -> Iterator[LockedOutcome | None]:
        """Hold the lock that is needed to update, drop or compare rows.

        Yields None if another process still holds it after `wait_s` seconds.
        """
        until_s, lock = monotonic() + wait_s, self._lock(outcome)
        if not lock.acquire(timeout=wait_s):
            yield None
            return
        try:
            if not self._at_once.acquire(timeout=max(0.0, until_s - monotonic())):
                yield None
                return
            try:
                wait_s = max(0.0, until_s - monotonic())
                with self._database.exclusive_lock(_lock_number(outcome), wait_s) as is_mine:
                    yield self._begin(outcome) if is_mine else None
            finally:
                self._at_once.release()
        finally:
            lock.release()

    def is_locked(self, outcome: str) -> bool:
        """Whether any process of the installation holds the lock now."""
        return self._lock(outcome).locked() or self._database.is_running(_lock_number(outcome))

    def _lock(self, outcome: str) -> Lock:
        with self._state:
            return self._locks.setdefault(outcome, Lock())

    def _begin(self, outcome: str) -> LockedOutcome:
        change = self.change(outcome)
        newest = self._newest_mark(change)
        return LockedOutcome(
            self._database, self._tables, self._registry, self._clock, change, newest
        )

    def change(self, outcome: str) -> RowChange:
        with self._database.read() as db:
            return store.find(db, outcome)

    def mark(self, change: RowChange) -> Mark | None:
        """Return the mark of the rows; None if no rows are in use.

        While the change is open, the rows may include more events than the mark says.
        """
        mark = self._newest_mark(change)
        return mark if mark is not None and mark.build else None

    def _newest_mark(self, change: RowChange) -> Mark | None:
        """Return the newest mark, from memory if the known mark belongs to the last change."""
        known = self._registry.mark(change.outcome)
        if known is not None and known.number == change.number:
            return known
        return self._tables.mark(change.outcome)

    def drop_until(self, outcome: str, until_ms: int) -> None:
        """Keep all nodes from building the outcome until this time."""
        with self._database.write() as db:
            store.drop_until(db, outcome, until_ms)

    def forget_old(self) -> None:
        """Delete the last change of each outcome that has had no rows for a month.

        Change numbers still only increase, because empty marks also have a number. A process that
        was overtaken before then finds that its change was deleted, and cannot continue it.
        """
        with_rows = [mark.outcome for mark in self._tables.marks()]
        now_ms = self._clock()
        with self._database.write() as db:
            store.forget(db, now_ms - _FORGOTTEN_MS, now_ms, with_rows)

    def builds(self) -> list[RowChange]:
        """Return the changes whose builds have not ended, including those of nodes that died."""
        with self._database.read() as db:
            return store.builds(db)


def _lock_number(outcome: str) -> int:
    """Return the number of the outcome's advisory lock: the first 63 bits of its name."""
    return int(outcome[:16], 16) >> 1
