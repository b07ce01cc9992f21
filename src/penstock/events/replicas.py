"""Notices when the replicas that queries read lack rows that were shipped.

A replica that returns after a failure first fetches what it has missed, and until then its rows are
too few. The engine prefers replicas that lag less than a second (`penstock.warehouse.cluster`). For
the others, the metadata DB knows how many events there should be, and the servers' copies of merges
and traits are compared with each other.
"""

from collections.abc import Mapping
from time import monotonic, sleep

from penstock.base.errors import StoreUnavailable
from penstock.events.losses.store import ledger
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.queries import load

_PAUSE_S = 0.05

Copies = Mapping[int, Mapping[str, int]]
"""The newest insert in each server's copy, by server and table."""


def await_replicas(database: Database, warehouse: Warehouse, until_s: float) -> bool:
    """Wait until queries read all events, merges and traits that are in the event store now.

    Looks at least once. Returns False at the monotonic time `until_s`, or if a store does not
    respond.
    """
    newest: dict[str, int] | None = None
    try:
        with database.read() as db:
            expected = ledger(db).expected
        while True:
            [[rows]] = warehouse.query_at_once(load("penstock.events.losses", "stored_rows"))[1]
            copies = _copies(warehouse)
            if newest is None:
                newest = _newest(copies)
            if rows >= expected and all(_has_all(copy, newest) for copy in copies.values()):
                return True
            if monotonic() >= until_s:
                return False
            sleep(_PAUSE_S)
    except (StoreUnavailable, QueryFailed):
        return False


def _copies(warehouse: Warehouse) -> Copies:
    copies = dict[int, dict[str, int]]()
    _, rows = warehouse.query_at_once(load("penstock.events", "newest_copies"))
    for server, table, block in rows:
        copies.setdefault(server, {})[table] = block
    return copies


def _newest(copies: Copies) -> dict[str, int]:
    newest = dict[str, int]()
    for copy in copies.values():
        for table, block in copy.items():
            newest[table] = max(block, newest.get(table, block))
    return newest


def _has_all(copy: Mapping[str, int], newest: Mapping[str, int]) -> bool:
    return all(copy.get(table, -1) >= block for table, block in newest.items())
