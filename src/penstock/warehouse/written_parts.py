"""Checks that the embedded engine has written each insert to disk.

chDB ignores failed writes (seen in 26.9 with EFBIG and EIO): the insert succeeds, and the files of
its part are empty or truncated. Each insert is therefore read back and compared with its checksums
before it counts as done. While writes fail, merges pause, because a merge would replace intact
parts with a damaged one. See docs/reliability.md.
"""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol

import structlog

from penstock.warehouse.errors import QueryFailed, unavailable_error
from penstock.warehouse.queries import load

log = structlog.get_logger()

_FED_BY: Mapping[str, tuple[str, ...]] = {"events": ("catalogue",)}
"""Tables filled by materialised views, keyed by the table that the views read."""
_SQL = "penstock.warehouse"
_NO_SUCH_DATA_PART = 232
_ATTEMPTS = 10
_QUIET_S = 10.0
"""Time without failed writes after which merges resume, in seconds."""


class RunStatement(Protocol):
    """Runs a statement and returns its rows. Raises `QueryFailed` and `StoreUnavailable`."""

    def __call__(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Sequence[Any]]: ...


class _Part(NamedTuple):
    """A part of a table. block: number of its newest insert."""

    table: str
    name: str
    block: int
    is_damaged: bool


class WrittenParts:
    """Checks the parts that inserts have added. Not thread-safe."""

    def __init__(self, run: RunStatement) -> None:
        self._run = run
        self._checked: dict[str, int] = {}
        """The newest checked block of each table."""
        self._failed_s: float | None = None
        """Time of the last failed write, on the monotonic clock; None while merges run."""

    def pause_merges(self) -> None:
        """Stop merges after a failed write, until `resume_merges`."""
        if self._failed_s is None:
            log.error("merges_paused")
            self._run("SYSTEM STOP MERGES")
        self._failed_s = monotonic()

    @property
    def may_resume(self) -> bool:
        """Whether merges are paused and no write has failed recently."""
        return self._failed_s is not None and monotonic() - self._failed_s > _QUIET_S

    def resume_merges(self) -> None:
        self._run("SYSTEM START MERGES")
        self._failed_s = None
        log.info("merges_resumed")

    def prepare(self, table: str) -> None:
        """Remember the newest blocks of the table. Call this before each insert."""
        unknown = [name for name in _written_with(table) if name not in self._checked]
        if unknown:
            rows = self._run(load(_SQL, "newest_blocks"), {"tables": unknown})
            self._checked |= dict.fromkeys(unknown, 0) | {name: int(block) for name, block in rows}

    def check(self, table: str) -> bool:
        """Read back the inserted parts. Returns False if no rows were added.

        Removes damaged parts, so that the same insert can be repeated, and raises
        `StoreUnavailable`.
        """
        new = self._read_back(_written_with(table))
        damaged = [part for part in new if part.is_damaged]
        for part in damaged:
            log.error("insert_not_written", table=part.table, part=part.name)
            self._run(f"ALTER TABLE {part.table} DROP PART '{part.name}'")
        if damaged:
            self.pause_merges()
            raise unavailable_error("the event store could not write its files")
        for part in new:
            self._checked[part.table] = max(self._checked[part.table], part.block)
        return any(part.table == table for part in new)

    def _read_back(self, tables: Sequence[str]) -> list[_Part]:
        """Return the parts that were added to the tables since the last check."""
        checked = [self._checked[table] for table in tables]
        for _ in range(_ATTEMPTS):
            parts = self._run(load(_SQL, "new_parts"), {"tables": list(tables), "checked": checked})
            try:
                return [
                    _Part(table, name, int(block), not self._is_whole(table, name))
                    for table, name, block in parts
                ]
            except QueryFailed as error:
                # The part may have been merged in the meantime.
                if error.code != _NO_SUCH_DATA_PART:
                    raise
        raise unavailable_error("the parts of an insert could not be read back")

    def _is_whole(self, table: str, part: str) -> bool:
        """Whether a part matches its checksums. part: the part's name, such as `all_1_1_0`."""
        sql = f"CHECK TABLE {table} PART '{part}' SETTINGS check_query_single_value_result = 0"
        return all(str(is_passed) == "1" for _, is_passed, _ in self._run(sql))


def _written_with(table: str) -> tuple[str, ...]:
    return (table, *_FED_BY.get(table, ()))
