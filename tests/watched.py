"""A real warehouse that records its funnel statements and can slow them down."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

FOR_EVER = "SELECT sum(sleepEachRow(0.02)) FROM numbers(1000000) SETTINGS max_block_size = 1"
TWO_SECONDS = "SELECT sum(sleepEachRow(0.02)) FROM numbers(100) SETTINGS max_block_size = 1"
BURNING = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) % 7 = 9"
"""Never ends and reads rows all the time."""

MUCH_MEMORY = "SELECT length(groupArray(number)) FROM numbers(1000000000)"


NO_REPORTS = [
    load("penstock.funnels.queries", name)
    for name in ("data_profile", "storage_fingerprint", "data_checksum")
]


class Watched(Warehouse):
    """Wraps the engine of another warehouse.

    reports: the funnel statements it ran. before: a statement to run before each of them.
    """

    def __init__(self, real: Warehouse) -> None:
        vars(self).update(vars(real))
        self.reports: list[str] = []
        self.before: str | None = None

    def query(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        if sql not in NO_REPORTS and not sql.startswith("SELECT match("):
            self.reports.append(sql)
            if self.before is not None:
                super().query(self.before)
        return super().query(sql, parameters, settings)

    def running(self) -> int:
        """How many of the `before` statements the engine is running."""
        count = (
            "SELECT count() FROM system.processes "
            "WHERE Settings['log_comment'] != '' AND query LIKE '%numbers(%'"
        )
        rows = self._watcher.query(count).result_rows
        return int(rows[0][0])

    @contextmanager
    def taking(self, statement: str) -> Iterator[None]:
        """In the context, each funnel statement also costs what that statement costs."""
        self.before = statement
        try:
            yield
        finally:
            self.before = None

    def close(self) -> None:
        """Does nothing: the owner of the real warehouse closes it."""


def eventually(holds: Callable[[], Any], within_s: float = 30.0) -> Any:
    """The first true result of repeated calls."""
    until_s = time.monotonic() + within_s
    while not (result := holds()):
        assert time.monotonic() < until_s, "the condition never became true"
        time.sleep(0.01)
    return result
