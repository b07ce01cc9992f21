"""One process at a time changes the rows of a stored outcome, in the whole installation.

It has the lock of the outcome: one of this process and, on PostgreSQL, one that ends with the
connection of a node that dies. A lock can be lost without notice, so a change of rows is also
recorded in the metadata DB: opened before it writes rows, and closed when its mark is saved.
Whoever finds a change open knows that rows may know more than the mark. A change has a number,
which its mark gets too: a process that was overtaken can neither open another change nor save a
mark that holds.
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
    """An outcome whose lock the caller has. Methods block, and raise as `OutcomeLocks` does.

    mark: what the rows know; None: no rows are in use. is_interrupted: the last change did not
    end. change: that one, as of now.
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
        """newest: also of dropped rows."""
        self._database, self._tables, self._clock = database, tables, clock
        self._registry, self.change = registry, change
        self._number = max(change.number, 0 if newest is None else newest.number)
        self.outcome = change.outcome
        self.mark = newest if newest is not None and newest.build else None
        # A mark with the change's number was saved when all rows were there.
        is_saved = newest is not None and newest.number == change.number
        self.is_interrupted = change.is_open and not is_saved

    def open_change(self, read_until_ms: int = 0, build: str = "") -> None:
        """A change of rows begins: they may know events up to then. build: that it makes.

        `Overtaken`.
        """
        opened = self.change._replace(
            number=self._number + 1,
            is_open=True,
            build=build,
            opened_at_ms=self._clock(),
            read_until_ms=max(read_until_ms, self.change.read_until_ms),
        )
        with self._database.write() as db:
            if not store.open_change(db, self.change, opened):
                raise Overtaken
        self.change, self._number = opened, opened.number

    def save(self, mark: Mark) -> Mark:
        """The change has ended, and its rows know this. `Overtaken`: the mark does not hold."""
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
        """The change has ended, or there is nothing that it could have left. `Overtaken`."""
        with self._database.write() as db:
            if not store.close_change(db, self.change):
                raise Overtaken
        self.change = self.change._replace(is_open=False, build="")
        self.is_interrupted = False

    def overtake(self) -> None:
        """End the build of a change that is open: a process that still makes it saves in vain."""
        self.open_change()
        self.save(Mark.empty(self.outcome))

    def is_dropped(self) -> bool:
        """Whether someone has asked meanwhile that nobody builds the outcome."""
        with self._database.read() as db:
            return store.find(db, self.outcome).dropped_until_ms > self._clock()


_FORGOTTEN_MS = 30 * DAY_S * 1000
"""When the last change of an outcome without rows is forgotten: no statement runs that long."""
_LOCKS_AT_ONCE = 6
"""Of a process. Each has a connection of PostgreSQL's pool, and needs a second one at times."""


class OutcomeLocks:
    """Methods block. `QueryFailed` of the event store, `StoreUnavailable` of both stores."""

    def __init__(
        self, database: Database, tables: OutcomeTables, registry: OutcomeRegistry, clock: Clock
    ) -> None:
        self._database, self._tables = database, tables
        self._registry, self._clock = registry, clock
        self._at_once = BoundedSemaphore(_LOCKS_AT_ONCE)
        self._state = Lock()  # guards the field below
        self._locks: dict[str, Lock] = {}

    @contextmanager
    def locked(self, outcome: str, wait_s: float) -> Iterator[LockedOutcome | None]:
        """Whoever folds, drops or compares rows has the lock. None: someone else has it so long."""
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
                with self._database.alone(_lock_number(outcome), wait_s) as is_mine:
                    yield self._begin(outcome) if is_mine else None
            finally:
                self._at_once.release()
        finally:
            lock.release()

    def is_locked(self, outcome: str) -> bool:
        """Whether anyone has the lock now, at this node or another."""
        return self._lock(outcome).locked() or self._database.is_done(_lock_number(outcome))

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
        """What the rows know, and maybe more while the change is open; None: no rows are in use."""
        mark = self._newest_mark(change)
        return mark if mark is not None and mark.build else None

    def _newest_mark(self, change: RowChange) -> Mark | None:
        """The mark in the event store. Any change since this process read it has another number."""
        known = self._registry.mark(change.outcome)
        if known is not None and known.number == change.number:
            return known
        return self._tables.mark(change.outcome)

    def drop_until(self, outcome: str, until_ms: int) -> None:
        """No node builds the outcome until then."""
        with self._database.write() as db:
            store.drop_until(db, outcome, until_ms)

    def forget_old(self) -> None:
        """Forget the last changes of outcomes that have had no rows for long.

        Their numbers do not fall: an empty mark has them, too. A process that was overtaken before
        that finds no change to continue.
        """
        with_rows = [mark.outcome for mark in self._tables.marks()]
        now_ms = self._clock()
        with self._database.write() as db:
            store.forget(db, now_ms - _FORGOTTEN_MS, now_ms, with_rows)

    def builds(self) -> list[RowChange]:
        """Of builds that have not ended, of nodes that died too."""
        with self._database.read() as db:
            return store.builds(db)


def _lock_number(outcome: str) -> int:
    """The first 63 bits of its name."""
    return int(outcome[:16], 16) >> 1
