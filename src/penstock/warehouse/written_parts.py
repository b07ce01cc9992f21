"""Whether the embedded engine has written what it inserted.

chDB ignores writes that fail (measured with 26.9, EFBIG and EIO): the insert succeeds, and the
files of its part are empty or cut. So the parts of each insert are read back and compared with
their checksums before the insert counts as done. Docs: docs/reliability.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import structlog

from penstock.warehouse.errors import QueryFailed, unavailable
from penstock.warehouse.queries import load

log = structlog.get_logger()

_FED_BY: Mapping[str, tuple[str, ...]] = {"events": ("catalogue",)}
"""Tables into which an insert into another one writes, through a materialised view."""
_SQL = "penstock.warehouse"
_NO_SUCH_DATA_PART = 232
_ATTEMPTS = 10


class RunStatement(Protocol):
    """Runs a statement and returns its rows. Raises `QueryFailed` and `StoreUnavailable`."""

    def __call__(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Sequence[Any]]: ...


class WrittenParts:
    """Checks what inserts have added. For one thread at a time."""

    def __init__(self, run: RunStatement) -> None:
        self._run = run
        self._checked: dict[str, int] = {}
        """The newest block that needs no check, by table."""

    def prepare(self, table: str) -> None:
        """Call it before an insert into the table."""
        for name in _written_with(table):
            if name not in self._checked:
                [[block]] = self._run(load(_SQL, "newest_block"), {"table": name})
                self._checked[name] = int(block)

    def check(self, table: str) -> bool:
        """Read back what was inserted into the table. Returns whether rows were added at all.

        `StoreUnavailable` when something is damaged; it is removed, so that the same insert can be
        repeated.
        """
        added = [self._add_checked(name) for name in _written_with(table)]
        if None in added:
            raise unavailable("the event store could not write its files")
        return bool(added[0])

    def _add_checked(self, table: str) -> bool | None:
        """Check the new parts of a table. Whether there are any; None when some were damaged."""
        for _ in range(_ATTEMPTS):
            parts = self._run(
                load(_SQL, "new_parts"), {"table": table, "after": self._checked[table]}
            )
            try:
                damaged = [part for part, _ in parts if not self._is_whole(table, part)]
            except QueryFailed as error:
                if error.code != _NO_SUCH_DATA_PART:
                    raise
                continue  # it was merged meanwhile
            for part in damaged:
                log.error("insert_not_written", table=table, part=part)
                self._run(f"ALTER TABLE {table} DROP PART '{part}'")
            if damaged:
                return None
            self._checked[table] = max(
                (int(block) for _, block in parts), default=self._checked[table]
            )
            return bool(parts)
        raise unavailable("the parts of an insert could not be read back")

    def _is_whole(self, table: str, part: str) -> bool:
        """part: a name that the engine made, such as `all_1_1_0`."""
        sql = f"CHECK TABLE {table} PART '{part}' SETTINGS check_query_single_value_result = 0"
        return all(str(is_passed) == "1" for _, is_passed, _ in self._run(sql))


def _written_with(table: str) -> tuple[str, ...]:
    return (table, *_FED_BY.get(table, ()))
