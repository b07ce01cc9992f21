"""A warehouse that tells what it was asked, and takes as long with a funnel as a test wants. Everything else is the real engine's."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

FOR_EVER = "SELECT sum(sleepEachRow(0.02)) FROM numbers(1000000) SETTINGS max_block_size = 1"
TWO_SECONDS = "SELECT sum(sleepEachRow(0.02)) FROM numbers(100) SETTINGS max_block_size = 1"
BURNING = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) % 7 = 9"
"""Runs for ever and reads rows all the time."""

MUCH_MEMORY = "SELECT length(groupArray(number)) FROM numbers(1000000000)"


NO_REPORTS = [load(name) for name in ("facts", "parts", "content")]


class Watched(Warehouse):
    """The engine of another warehouse. reports: the funnel statements that it was asked. before: runs in the engine before each of them."""

    def __init__(self, real: Warehouse) -> None:
        vars(self).update(vars(real))
        self.reports: list[str] = []
        self.before: str | None = None

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        if sql not in NO_REPORTS and not sql.startswith("SELECT match("):
            self.reports.append(sql)
            if self.before is not None:
                super().query(self.before)
        return super().query(sql, parameters, settings)

    def running(self) -> int:
        """How many of the statements that stand before a report the engine runs right now."""
        asked = "SELECT count() FROM system.processes WHERE Settings['log_comment'] != '' AND query LIKE '%numbers(%'"
        rows = self._watcher.query(asked).result_rows
        return int(rows[0][0])

    @contextmanager
    def taking(self, statement: str) -> Iterator[None]:
        """Meanwhile a funnel takes as long, and as much, as that statement beside its own."""
        self.before = statement
        try:
            yield
        finally:
            self.before = None

    def close(self) -> None:
        """The real one is closed by whoever opened it."""


def eventually(holds: Callable[[], Any], within_s: float = 30.0) -> Any:
    """The first true answer, asked again and again."""
    until_s = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < until_s, "it never came true"
        time.sleep(0.01)
    return found
