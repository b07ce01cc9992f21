"""Which stored outcomes exist, who reads them, and which are to be built.

Queries and the worker share this state. It is in memory; marks are also in the event store.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

import structlog

from penstock.base.clock import LATEST_MS, Clock
from penstock.base.ids import WorkspaceId
from penstock.funnels.outcomes.model import Mark, PendingBuild, Subject
from penstock.funnels.outcomes.tables import OutcomeTables

log = structlog.get_logger()

_RETIRE_AFTER_MS = 120_000
"""Statements that were about to read a build have begun within this time."""


class OutcomeRegistry:
    """The state of stored outcomes. Thread-safe.

    Methods that save marks block, and raise as `OutcomeTables` does.
    """

    def __init__(self, tables: OutcomeTables, clock: Clock) -> None:
        self._tables, self._clock = tables, clock
        self._state = Lock()  # guards all fields below
        self._marks: dict[str, Mark] = {}
        self._locks: dict[str, Lock] = {}
        self._pending: dict[str, PendingBuild] = {}
        self._retired_at_ms: dict[str, int] = {}  # builds without a mark
        self._read_until_ms: dict[str, int] = {}  # per build: what its rows may know
        self._readers = Counter[str]()  # statements that read each build
        self._interrupted = set[str]()
        self._not_storable = set[str]()  # until the next start
        self._not_before_ms: dict[str, int] = {}

    def mark(self, outcome: str) -> Mark | None:
        with self._state:
            return self._marks.get(outcome)

    def marks(self) -> list[Mark]:
        with self._state:
            return list(self._marks.values())

    def lock(self, outcome: str) -> Lock:
        """Whoever folds, drops or compares the rows of an outcome holds its lock."""
        with self._state:
            return self._locks.setdefault(outcome, Lock())

    @contextmanager
    def locked(self, mark: Mark) -> Iterator[Mark | None]:
        """Holds the lock; the mark as it is now, None if its build was dropped meanwhile."""
        with self.lock(mark.outcome):
            current = self.mark(mark.outcome)
            yield current if current is not None and current.build == mark.build else None

    def set_mark(self, mark: Mark, *, save: bool) -> None:
        """What the rows know now. The caller holds the lock, or the build is new.

        save: False where the mark in the event store means the same.
        """
        if save:
            self._tables.save(mark)
        with self._state:
            self._marks[mark.outcome] = mark
        self.set_read_until(mark.build, mark.read_until_ms)

    def retire(self, mark: Mark, reason: str) -> None:
        """No query reads its rows from now on; they can be dropped later. Under the lock."""
        log.info("outcomes_dropped", funnel_id=mark.funnel_id, reason=reason)
        # Saved first: rows are dropped only when no mark knows them, whatever fails.
        self._tables.save(replace(mark, build=""))
        with self._state:
            self._marks.pop(mark.outcome, None)
            self._interrupted.discard(mark.outcome)
            self._retired_at_ms[mark.build] = self._clock()

    def discard_build(self, build: str) -> None:
        """Rows that never had a mark can be dropped at once."""
        with self._state:
            self._retired_at_ms[build] = 0

    def unused_builds(self) -> list[str]:
        """Retired builds that no statement reads or is about to read."""
        before_ms = self._clock() - _RETIRE_AFTER_MS
        with self._state:
            return [
                build
                for build, at_ms in self._retired_at_ms.items()
                if at_ms <= before_ms and not self._readers[build]
            ]

    def remove_build(self, build: str) -> None:
        """Its rows are dropped."""
        with self._state:
            self._retired_at_ms.pop(build, None)
            self._read_until_ms.pop(build, None)

    @contextmanager
    def reading(self, build: str) -> Iterator[None]:
        """While a statement reads a build, it is not dropped."""
        with self._state:
            self._readers[build] += 1
        try:
            yield
        finally:
            with self._state:
                self._readers[build] -= 1
                if not self._readers[build]:
                    del self._readers[build]

    def set_read_until(self, build: str, until_ms: int) -> None:
        """Rows of a build may know events up to this time, whatever its mark says."""
        with self._state:
            self._read_until_ms[build] = max(until_ms, self._read_until_ms.get(build, 0))

    def read_until(self, build: str) -> int:
        with self._state:
            return self._read_until_ms.get(build, LATEST_MS)

    def set_interrupted(self, outcome: str, *, interrupted: bool) -> None:
        """Whether a fold failed half way, so that some rows may know more than the mark."""
        with self._state:
            if interrupted:
                self._interrupted.add(outcome)
            else:
                self._interrupted.discard(outcome)

    def is_interrupted(self, outcome: str) -> bool:
        with self._state:
            return outcome in self._interrupted

    def set_not_storable(self, outcome: str) -> None:
        with self._state:
            self._not_storable.add(outcome)

    def is_storable(self, outcome: str) -> bool:
        """Whether no event is known that forbids to store the outcome."""
        with self._state:
            return outcome not in self._not_storable

    def postpone(self, outcome: str, until_ms: int) -> None:
        """Queries request no build of the outcome until then."""
        with self._state:
            self._not_before_ms[outcome] = until_ms

    def may_build(self, outcome: str) -> bool:
        """Whether a query may request a build."""
        with self._state:
            return (
                outcome not in self._marks
                and outcome not in self._pending
                and outcome not in self._not_storable
                and self._clock() >= self._not_before_ms.get(outcome, 0)
            )

    def request_build(self, subject: Subject, workspace_id: WorkspaceId, funnel_id: str) -> None:
        with self._state:
            build = PendingBuild(subject, workspace_id, funnel_id)
            self._pending.setdefault(subject.outcome, build)

    def pending_build(self, outcome: str) -> PendingBuild | None:
        """A build that waits or runs."""
        with self._state:
            return self._pending.get(outcome)

    def pending_builds(self) -> list[PendingBuild]:
        with self._state:
            return list(self._pending.values())

    def start_build(self, build: PendingBuild) -> bool:
        """False when it was cancelled."""
        with self._state:
            build.started_at_ms = self._clock()
            return not build.is_cancelled

    def end_build(self, build: PendingBuild) -> None:
        """A build that failed is not tried again at once."""
        with self._state:
            self._pending.pop(build.subject.outcome, None)

    def cancel_build(self, build: PendingBuild) -> None:
        """It does not start; who cancels one that runs also stops its work."""
        with self._state:
            build.is_cancelled = True
