"""A real warehouse that records its funnel statements, and can hold them back or slow them down."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load
from penstock.warehouse.work import Work, current_work

ENDLESS = "SELECT sum(sleepEachRow(0.02)) FROM numbers(1000000) SETTINGS max_block_size = 1"
TWO_SECONDS = "SELECT sum(sleepEachRow(0.02)) FROM numbers(100) SETTINGS max_block_size = 1"
BURNING = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) % 7 = 9"
"""A statement that never ends and keeps reading rows."""

MUCH_MEMORY = "SELECT length(groupArray(number)) FROM numbers(1000000000)"


AT_START = [load("penstock.funnels.outcomes", name) for name in ("marks", "builds")]
"""Statements of the worker that maintains outcomes. They may run at any time and are not
recorded.
"""

NO_REPORTS = [
    *AT_START,
    *(
        load("penstock.funnels.queries", name)
        for name in ("event_spans", "new_event_spans", "storage_state", "stored_since")
    ),
    load("penstock.warehouse", "engine_of_events"),
]


class HeldStatements:
    """Funnel statements held back until `release`. Each occupies a connection of the engine."""

    def __init__(self) -> None:
        self._released, self._works = Event(), list[Work]()

    @property
    def statements(self) -> int:
        """Number of waiting statements."""
        return len(self._works)

    @property
    def requests(self) -> int:
        """Number of requests waiting for the rows of these statements."""
        return sum(len(work._waiters) for work in self._works)

    def release(self) -> None:
        self._released.set()

    def wait(self) -> None:
        work = current_work()
        assert work is not None
        self._works.append(work)
        while not self._released.wait(0.02):
            work.check()


class RecordingWarehouse(Warehouse):
    """A warehouse that wraps the engine of another warehouse.

    reports: funnel statements that have run. before: a statement to run before each of them.
    """

    def __init__(self, real: Warehouse) -> None:
        vars(self).update(vars(real))
        self._real = real
        self.reports: list[str] = []
        self.before: str | None = None
        self._hold: HeldStatements | None = None

    def query(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        if sql not in NO_REPORTS:
            self.reports.append(sql)
            if self.before is not None:
                super().query(self.before)
            if self._hold is not None:
                with self._open_reader("", None):
                    self._hold.wait()
        return super().query(sql, parameters, settings)

    def command(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, at_once: bool = False
    ) -> None:
        self._real.command(sql, parameters, at_once=at_once)

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        return self._real.insert_json_rows(table, rows, columns, token)

    def running(self) -> int:
        """Number of `before` statements that the engine is running."""
        count = (
            "SELECT count() FROM system.processes "
            "WHERE Settings['log_comment'] != '' AND query LIKE '%numbers(%'"
        )
        rows = self._watcher.query(count).result_rows
        return int(rows[0][0])

    @contextmanager
    def running_before_reports(self, statement: str) -> Iterator[None]:
        """During the context, run this statement before each funnel statement."""
        self.before = statement
        try:
            yield
        finally:
            self.before = None

    @contextmanager
    def holding(self) -> Iterator[HeldStatements]:
        """Hold back funnel statements until they are released or the context ends."""
        self._hold = hold = HeldStatements()
        try:
            yield hold
        finally:
            self._hold = None
            hold.release()

    def close(self) -> None:
        """Do nothing: the owner of the real warehouse closes it."""
