"""Shards that share the fold of a report: nothing stays behind, and no report is wrong.

`tests.funnels.reports` compares shared folds with whole statements on random cases.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import structlog

from penstock.base.errors import StoreUnavailable
from penstock.funnels.queries import shared_fold
from tests.clickhouse_server import ClickHouseServer
from tests.sharded import ShardedWarehouse
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.warehouse.test_shard_faults import (
    BATCH,
    Shards,
    down,
    each,
    entered,
    limit_queries,
    post_batch,
    read_report,
    shard,
)
from tests.warehouse.test_shards import post, results_of_a_funnel

__all__ = ["shard"]

pytestmark = [pytest.mark.full("shared folds"), pytest.mark.slow("reads reports of two servers")]

_PARTS = "SELECT count() FROM system.parts WHERE active AND table = 'exchanged_local' AND rows > 0"


@pytest.fixture
def warehouse(sharded: ShardedWarehouse) -> ShardedWarehouse:
    return sharded


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_fold, "_PAUSE_S", 0.0)


@pytest.fixture
def after_sending(
    warehouse: ShardedWarehouse, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Callable[[], object]]]:
    """Calls that follow the sending of events, in order. Each is made once."""
    calls, send = list[Callable[[], object]](), warehouse.send_to_shards

    def send_and_call(*arguments: Any) -> None:
        send(*arguments)
        if calls:
            calls.pop(0)()

    monkeypatch.setattr(warehouse, "send_to_shards", send_and_call)
    yield calls
    assert not calls


def parts(shards: Shards) -> list[int]:
    return [int(each_shard.execute(_PARTS)) for each_shard in shards]


def test_a_shared_fold_leaves_no_rows(
    shards: Shards, workspace: Tenant, after_sending: list[Callable[[], object]]
) -> None:
    results, seen = results_of_a_funnel(workspace.client), list[list[int]]()
    post_batch(workspace, [f"v{number}" for number in range(BATCH)])
    after_sending.append(lambda: seen.append(parts(shards)))
    assert entered(workspace.client, results) == BATCH
    assert all(seen[0])
    assert parts(shards) == [0, 0]


def test_a_stopped_fold_leaves_no_rows(
    shards: Shards, workspace: Tenant, after_sending: list[Callable[[], object]]
) -> None:
    def stop() -> None:
        raise StoreUnavailable("The event store is not responding.")

    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, ["ann", "ben"])
    after_sending.append(stop)
    assert entered(workspace.client, results) == 2
    assert parts(shards) == [0, 0]


@each
def test_a_report_is_right_if_a_shard_has_lost_the_events_that_it_received(
    shard: ClickHouseServer, workspace: Tenant, after_sending: list[Callable[[], object]]
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, [f"v{number}" for number in range(BATCH)])
    after_sending.append(partial(shard.execute, "TRUNCATE TABLE penstock.exchanged_local"))
    assert entered(workspace.client, results) == BATCH


def test_a_report_is_right_if_a_shard_lacks_events_when_it_sends(
    workspace: Tenant, warehouse: ShardedWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a replica that has not fetched the newest event had been asked."""
    send, stored = warehouse.send_to_shards, "toInt64(count())"

    def send_less(sql: str, *arguments: Any) -> None:
        assert sql.count(stored) == 1
        send(sql.replace(stored, f"{stored} - 1"), *arguments)

    monkeypatch.setattr(warehouse, "send_to_shards", send_less)
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, ["ann", "ben"])
    with structlog.testing.capture_logs() as logs:
        assert entered(workspace.client, results) == 2
    assert "fold_not_shared" in [line["event"] for line in logs]


@each
@pytest.mark.slow("kills and restarts a server")
def test_a_shard_that_dies_during_a_fold_leaves_nothing(
    shards: Shards,
    shard: ClickHouseServer,
    workspace: Tenant,
    after_sending: list[Callable[[], object]],
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, [f"v{number}" for number in range(BATCH)])

    def die() -> None:
        with down(shard):
            pass

    after_sending.append(die)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(read_report, workspace.client, results).result()
    post(workspace, "ann")
    assert entered(workspace.client, results) == BATCH + 1
    assert parts(shards) == [0, 0]


@pytest.mark.slow("waits for the engine to drop rows: about a minute")
def test_the_engine_drops_the_rows_of_a_fold_whose_node_has_died(
    shards: Shards,
    workspace: Tenant,
    warehouse: ShardedWarehouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, [f"v{number}" for number in range(BATCH)])
    monkeypatch.setattr(warehouse, "drop_exchange", lambda exchange: None)
    monkeypatch.setattr(shared_fold, "_SPARE_S", 2)
    limit_queries(workspace, 5.0)
    assert entered(workspace.client, results) == BATCH
    assert all(parts(shards))
    began_s = time.monotonic()
    eventually(lambda: parts(shards) == [0, 0])
    print(f"dropped after {time.monotonic() - began_s:.0f} s")
