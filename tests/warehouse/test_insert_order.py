"""Block numbers follow the order of inserts. Stored outcomes, profiles and the cache rely on it."""

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from penstock.warehouse.client import Warehouse
from tests.one_server import one_server

pytestmark = one_server("each shard numbers its own inserts")
_INSERT = "INSERT INTO insert_order SELECT number FROM numbers({rows:UInt64})"
_NEWEST = """
    SELECT max(max_block_number) FROM system.parts
    WHERE database = currentDatabase() AND table = 'insert_order' AND active
"""
_UP_TO = "SELECT count() FROM insert_order WHERE _block_number <= {newest:Int64}"
_SIZES = (1, 1_000, 20_000, 1)


@pytest.fixture
def insert_order(warehouse: Warehouse) -> Iterator[None]:
    """Create an empty table."""
    warehouse.command(
        "CREATE TABLE insert_order (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS "
        "enable_block_number_column = 1, fsync_after_insert = 1, fsync_part_directory = 1"
    )
    yield
    warehouse.command("DROP TABLE insert_order SYNC")


@pytest.mark.usefixtures("insert_order")
@pytest.mark.slow("inserts from many threads")
@pytest.mark.parametrize("inserts", [40, pytest.param(200, marks=pytest.mark.full("more inserts"))])
def test_no_insert_appears_below_a_newer_insert(warehouse: Warehouse, inserts: int) -> None:
    """Several threads insert blocks of different sizes while the engine merges."""
    done = Event()

    def insert(rows: int) -> None:
        while not done.is_set():
            warehouse.query(_INSERT, {"rows": rows})

    def number(sql: str, **parameters: int) -> int:
        [[value]] = warehouse.query(sql, parameters)[1]
        return int(value)

    threads = [Thread(target=insert, args=(rows,)) for rows in _SIZES]
    for thread in threads:
        thread.start()
    newest, looks = 0, 0
    try:
        while looks < 20 or newest < inserts:
            newest = number(_NEWEST)
            counts = [number(_UP_TO, newest=newest) for _ in range(2)]
            assert counts[0] == counts[1]
            looks += 1
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert counts[0] > 0


def test_one_server_orders_inserts(warehouse: Warehouse) -> None:
    assert warehouse.orders_inserts()
