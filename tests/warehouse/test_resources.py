"""The embedded engine uses few descriptors and threads, and its caches are bounded."""

import resource
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from penstock.base.errors import StoreUnavailable
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")

CACHES = 512 * 1024**2
"""Upper bound for the size of all caches together, in bytes."""
THREADS = "SELECT value FROM system.metrics WHERE metric = 'GlobalThread'"


@pytest.fixture
def embedded(warehouse: Warehouse) -> Warehouse:
    """The embedded engine. A server would have its own settings."""
    if warehouse.folder is None:
        pytest.skip("a server has its own settings")
    return warehouse


def open_libraries() -> int:
    """Count open descriptors of shared libraries and their symbol files."""
    names = list[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            names.append(str(descriptor.readlink()))
    return sum(".so" in name or name.endswith(".debug") for name in names)


def single_value(warehouse: Warehouse, sql: str) -> Any:
    [[value]] = warehouse.query(sql)[1]
    return value


def open_libraries_after_errors(data: Path) -> int:
    warehouse = Warehouse(data=data, url=None)
    for statement in ("SELECT nothing", "SELECT throwIf(number = 1) FROM numbers(2)"):
        with pytest.raises(QueryFailed):
            warehouse.query(statement)
        with pytest.raises(QueryFailed):
            warehouse.command(statement)
    return open_libraries()


def test_an_error_of_the_engine_opens_no_libraries(tmp_path: Path) -> None:
    """Use a separate process, because another test may have opened libraries in this one."""
    with ProcessPoolExecutor(1, get_context("forkserver")) as process:
        assert process.submit(open_libraries_after_errors, tmp_path).result() == 0


def rows_after_a_lack_of_descriptors(data: Path) -> list[Any]:
    """Run a statement without free descriptors, then return the rows of the next statement."""
    warehouse = Warehouse(data=data, url=None, readers=1)
    warehouse.query("SELECT 1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    with suppress(QueryFailed, StoreUnavailable):
        warehouse.query("SELECT 1")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    rows = list[Any]()
    statement = Thread(target=lambda: rows.extend(warehouse.query("SELECT 2")[1]), daemon=True)
    statement.start()
    statement.join(5)
    return rows


def test_queries_run_again_after_descriptors_ran_out(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, get_context("forkserver")) as process:
        rows = process.submit(rows_after_a_lack_of_descriptors, tmp_path).result()
    assert [tuple(row) for row in rows] == [(2,)]


def test_the_removal_of_many_parts_starts_no_threads(embedded: Warehouse) -> None:
    """Threads of the engine never end, and each holds three descriptors."""
    before = single_value(embedded, THREADS)
    embedded.command(
        "CREATE TABLE many_parts (n UInt64) ENGINE = MergeTree ORDER BY n PARTITION BY n"
    )
    embedded.command(
        "INSERT INTO many_parts SELECT number FROM numbers(300) "
        "SETTINGS max_partitions_per_insert_block = 0, max_threads = 1"
    )
    embedded.command("DROP TABLE many_parts SYNC")
    assert single_value(embedded, THREADS) - before < 20


def test_caches_are_bounded(embedded: Warehouse) -> None:
    caches = "SELECT sum(toUInt64(value)) FROM system.server_settings WHERE name IN (%s)"
    names = ("mark_cache_size", "index_mark_cache_size", "primary_index_cache_size",
             "uncompressed_cache_size", "query_condition_cache_size",
             "compiled_expression_cache_size")  # fmt: skip
    assert single_value(embedded, caches % ", ".join(f"'{name}'" for name in names)) <= CACHES


def test_a_merged_part_is_synced_before_its_sources_are_removed(embedded: Warehouse) -> None:
    setting = (
        "SELECT value FROM system.merge_tree_settings "
        "WHERE name = 'min_compressed_bytes_to_fsync_after_merge'"
    )
    assert single_value(embedded, setting) == "1"
