"""State of stored outcomes in memory, which the queries and the worker of a process share.

State that other processes need is kept in the stores: see `penstock.funnels.outcomes.locked`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

from penstock.base.clock import Clock
from penstock.base.ids import WorkspaceId
from penstock.funnels.outcomes import store
from penstock.funnels.outcomes.model import Mark, PendingBuild, RowChange, Subject
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.metadb.database import Database

_RETIRE_AFTER_MS = 120_000
"""Time to keep an unmarked build, because a query may have chosen it without having started to read
it.
"""


class OutcomeCache:
    """Marks, locks, readers and pending builds of stored outcomes in this process. Thread-safe.

    Only `last_change` and `read` block; they raise `StoreUnavailable` and `QueryFailed`.
    """

    def __init__(self, database: Database, rows: OutcomeRows, clock: Clock) -> None:
        self.database, self.rows, self.clock = database, rows, clock
        self._state = Lock()  # guards all fields below
        self._locks: dict[str, Lock] = {}
        # Times are elapsed milliseconds.
        self._marks: dict[str, Mark] = {}
        self._pending: dict[str, PendingBuild] = {}
        self._unmarked_since_ms: dict[str, int] = {}  # builds without a mark
        self._readers = Counter[str]()  # number of statements that read each build
        self._not_storable = set[str]()  # only a restart clears this set
        self._not_before_ms: dict[str, int] = {}

    def last_change(self, outcome: str) -> RowChange:
        """Read the last change of an outcome's rows. It is empty if there was none."""
        with self.database.read() as db:
            return store.last(db, outcome)

    def read(self, outcome: str) -> tuple[RowChange, Mark]:
        """Return the last change of an outcome's rows, and their newest mark.

        The mark is empty if no rows are in use. It comes from memory if the known mark belongs to
        the last change. While a change is open, the rows may include more events than it says.
        """
        change, known = self.last_change(outcome), self.mark(outcome)
        if known is not None and known.number == change.number:
            return change, known
        return change, self.rows.newest_mark(outcome)

    def lock(self, outcome: str) -> Lock:
        """Return the lock of an outcome in this process. `locked.hold` acquires it."""
        with self._state:
            return self._locks.setdefault(outcome, Lock())

    def mark(self, outcome: str) -> Mark | None:
        """Return the last mark that this process read or saved.

        It is certain to be valid only while the lock is held.
        """
        with self._state:
            return self._marks.get(outcome)

    def marks(self) -> list[Mark]:
        with self._state:
            return list(self._marks.values())

    def remember(self, mark: Mark) -> None:
        """Remember a valid mark. While the lock is held, it may be newer than the saved mark."""
        with self._state:
            self._marks[mark.outcome] = mark

    def note_query(self, outcome: str, at_ms: int) -> None:
        """Record the time of a query about the outcome on another node, in wall-clock time."""
        with self._state:
            mark = self._marks.get(outcome)
            if mark is not None and mark.queried_at_ms < at_ms:
                self._marks[outcome] = replace(mark, queried_at_ms=at_ms)

    def forget(self, outcome: str) -> None:
        """Remove the mark of an outcome whose rows are no longer in use."""
        with self._state:
            mark = self._marks.pop(outcome, None)
            if mark is not None:
                self._unmarked_since_ms[mark.build] = self.clock.elapsed_ms()

    def discard_build(self, build: str) -> None:
        """Allow the rows of a build that never had a mark to be dropped at once."""
        with self._state:
            self._unmarked_since_ms[build] = self.clock.elapsed_ms() - _RETIRE_AFTER_MS

    def unused_builds(self, unmarked: Iterable[str], *, at_once: bool) -> list[str]:
        """Return the builds without a mark that no statement reads or is about to read.

        at_once: include builds that have only just lost their mark.
        """
        now_ms = self.clock.elapsed_ms()
        before_ms = now_ms if at_once else now_ms - _RETIRE_AFTER_MS
        with self._state:
            since_ms = {build: self._unmarked_since_ms.get(build, now_ms) for build in unmarked}
            self._unmarked_since_ms = since_ms
            return [
                build
                for build, at_ms in since_ms.items()
                if at_ms <= before_ms and not self._readers[build]
            ]

    @contextmanager
    def keep(self, build: str) -> Iterator[None]:
        """Keep a build from being dropped while a statement reads it."""
        with self._state:
            self._readers[build] += 1
        try:
            yield
        finally:
            with self._state:
                self._readers[build] -= 1
                if not self._readers[build]:
                    del self._readers[build]

    def set_not_storable(self, outcome: str) -> None:
        with self._state:
            self._not_storable.add(outcome)

    def is_storable(self, outcome: str) -> bool:
        """Whether the outcome may be stored, because no payment events are known to match it."""
        with self._state:
            return outcome not in self._not_storable

    def postpone(self, outcome: str, for_ms: int) -> None:
        """Keep queries from requesting a build for this long."""
        with self._state:
            self._not_before_ms[outcome] = self.clock.elapsed_ms() + for_ms

    def may_build(self, outcome: str) -> bool:
        """Whether a query may request a build."""
        now_ms = self.clock.elapsed_ms()
        with self._state:
            return (
                outcome not in self._marks
                and outcome not in self._pending
                and outcome not in self._not_storable
                and now_ms >= self._not_before_ms.get(outcome, now_ms)
            )

    def request_build(self, subject: Subject, workspace_id: WorkspaceId, funnel_id: str) -> None:
        """Add a pending build, unless there is one or the outcome cannot be stored."""
        outcome = subject.outcome
        with self._state:
            if outcome not in self._not_storable:
                build = PendingBuild(subject, workspace_id, funnel_id)
                self._pending.setdefault(outcome, build)

    def pending_build(self, outcome: str) -> PendingBuild | None:
        """Return the outcome's waiting or running build."""
        with self._state:
            return self._pending.get(outcome)

    def pending_builds(self) -> list[PendingBuild]:
        with self._state:
            return list(self._pending.values())

    def end_build(self, build: PendingBuild) -> None:
        """Remove a pending build, whether or not it succeeded."""
        with self._state:
            self._pending.pop(build.subject.outcome, None)
