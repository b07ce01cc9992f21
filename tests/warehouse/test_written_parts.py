"""The embedded engine ignores failed writes, so inserts with incomplete files are rejected."""

import json
import resource
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import StoreUnavailable
from penstock.warehouse import migrations, written_parts
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed

ROWS = [{"website_id": "web_1", "name": "e", "event_id": f"evt_{n}"} for n in range(20)]


@contextmanager
def writes_fail_beyond(warehouse: Warehouse, size: int) -> Iterator[None]:
    """Make writes of the engine fail with EFBIG beyond this position in a file."""
    command = warehouse._writer.command

    def failing(*arguments: Any, **named: Any) -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            return command(*arguments, **named)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    warehouse._writer.command = failing  # type: ignore[method-assign]
    try:
        yield
    finally:
        warehouse._writer.command = command  # type: ignore[method-assign]


def insert(warehouse: Warehouse, token: str) -> bool:
    rows = "\n".join(map(json.dumps, ROWS)).encode()
    return warehouse.insert_json_rows("events", rows, list(ROWS[0]), token)


def counts(warehouse: Warehouse) -> tuple[int, int]:
    """The number of stored events, and the number that the catalogue counts."""
    [[events]] = warehouse.query("SELECT count() FROM events WHERE NOT ignore(*)")[1]
    [[counted]] = warehouse.query("SELECT sum(events) FROM catalogue WHERE property = ''")[1]
    return int(events), int(counted)


def in_own_process(test: Callable[..., Any], *arguments: Any) -> Any:
    """Run a test in a separate process, because the limit applies to the whole process."""
    with ProcessPoolExecutor(1, get_context("forkserver")) as process:
        return process.submit(test, *arguments).result()


def insert_while_writes_fail(data: Path, size: int) -> list[tuple[int, int]]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # `penstock serve` does the same.
    warehouse = Warehouse(data=data, url=None)
    migrations.migrate(warehouse)
    assert insert(warehouse, "first")
    with writes_fail_beyond(warehouse, size), pytest.raises(StoreUnavailable):
        insert(warehouse, "second")
    after_failure = counts(warehouse)
    assert insert(warehouse, "second"), "the token of a failed insert is not remembered"
    assert not insert(warehouse, "second")
    assert insert(warehouse, "third")
    return [after_failure, counts(warehouse)]


@pytest.mark.parametrize(
    "size",
    [
        100,
        pytest.param(0, marks=pytest.mark.full("other sizes")),
        pytest.param(1000, marks=pytest.mark.full("other sizes")),
    ],
)
def test_an_insert_that_was_not_written_fails_and_can_be_retried(tmp_path: Path, size: int) -> None:
    after_failure, at_the_end = in_own_process(insert_while_writes_fail, tmp_path, size)
    assert after_failure[0] == 20
    assert at_the_end == (60, 60)


def merge_while_writes_fail(data: Path) -> tuple[int, int]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    warehouse = Warehouse(data=data, url=None)
    migrations.migrate(warehouse)
    assert insert(warehouse, "first")
    with writes_fail_beyond(warehouse, 0), pytest.raises(StoreUnavailable):
        insert(warehouse, "second")
    with writes_fail_beyond(warehouse, 0), suppress(QueryFailed):
        warehouse.command("OPTIMIZE TABLE events FINAL")
    while_paused = counts(warehouse)[0]
    written_parts._QUIET_S = 0
    warehouse.resume_merges()
    assert insert(warehouse, "second")
    warehouse.command("OPTIMIZE TABLE events FINAL")
    [[parts]] = warehouse.query(
        "SELECT count() FROM system.parts WHERE table = 'events' AND active AND rows > 0"
    )[1]
    assert parts == 1
    return while_paused, counts(warehouse)[0]


def test_merges_pause_while_writes_fail(tmp_path: Path) -> None:
    assert in_own_process(merge_while_writes_fail, tmp_path) == (20, 40)
