"""Shards that are killed or frozen: nothing is lost or doubled, and no report is wrong.

`PENSTOCK_KILLS` says how often a shard is killed under load, divided by 3.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services
from penstock.base.errors import StoreUnavailable
from penstock.settings import Settings
from tests.cli.test_doctor import doctor
from tests.clickhouse_server import CLUSTER, DATABASE, ClickHouseServer
from tests.events.deletions.conftest import finished, request_deletion
from tests.events.test_kills import KILLS
from tests.events.test_quarantine import counted
from tests.serving import penstock
from tests.sharded import ShardedWarehouse
from tests.tenant import Tenant
from tests.waiting import PATIENCE_S, eventually
from tests.warehouse.test_shards import post, results_of_a_funnel

pytestmark = pytest.mark.full("faults of shards")

Shards = tuple[ClickHouseServer, ClickHouseServer]

BATCH = 20
QUERY_S = 2.0
"""Time limit of a query; waiting for a server that hangs takes at most two seconds more."""
POST_S = 5.0
"""Time limit of a request that needs no shard. It takes milliseconds on an idle machine."""

_STORED = """
SELECT count(), uniqExact(event_id)
FROM events
WHERE website_id = {website:String}
"""
_SLOW = """
SELECT sum(sleepEachRow(0.1))
FROM cluster(penstock, view(SELECT number FROM numbers(600)))
SETTINGS max_block_size = 1
"""
_QUERIES = """
SELECT count()
FROM system.processes
WHERE user = 'penstock' AND Settings['max_execution_time'] = '2'
"""
"""Counts the queries whose time limit is `QUERY_S`."""
_SHARD_OF_EVENT = "SELECT sipHash64({event:String}) % 2"
_TABLE = f"{DATABASE}.events_local"
_LISTED = """
SELECT sum(events)
FROM catalogue
WHERE website_id = {website:String} AND property = ''
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.with_limits(fresh_wait_s=0.2)


@pytest.fixture
def warehouse(sharded: ShardedWarehouse) -> ShardedWarehouse:
    return sharded


@pytest.fixture
def shard(shards: Shards, request: pytest.FixtureRequest) -> ClickHouseServer:
    return shards[request.param]


each = pytest.mark.parametrize("shard", [0, 1], indirect=True, ids=["queried", "other"])
"""Runs a test for the server that Penstock queries, and for the other one."""

refusals = pytest.mark.parametrize(
    ("refuse", "accept"),
    [
        pytest.param(
            f"ALTER TABLE {_TABLE} ADD CONSTRAINT refused CHECK event_id = ''",
            f"ALTER TABLE {_TABLE} DROP CONSTRAINT refused",
            id="constraint",
        ),
        pytest.param(
            f"RENAME TABLE {_TABLE} TO {_TABLE}_away",
            f"RENAME TABLE {_TABLE}_away TO {_TABLE}",
            id="no table",
        ),
    ],
)
"""Statements that let a server refuse inserts of events, and accept them again."""

only_in_test_shards = pytest.mark.skipif(
    os.environ.get("PENSTOCK_TEST_ENGINE") != "shards", reason="takes long: see `make test-shards`"
)


@contextmanager
def down(shard: ClickHouseServer) -> Iterator[None]:
    shard.kill()
    try:
        yield
    finally:
        shard.start()


@contextmanager
def frozen(shard: ClickHouseServer) -> Iterator[None]:
    shard.freeze()
    try:
        yield
    finally:
        shard.thaw()


def post_batch(workspace: Tenant, visitors: list[str]) -> None:
    """Send one event of each visitor in one request. Twenty events reach both shards."""
    events = [
        {"websiteId": workspace.website_id, "visitorId": visitor, "event": "opened"}
        for visitor in visitors
    ]
    answer = workspace.client.post("/api/v1/events/batch", json={"events": events})
    assert answer.json()["accepted"] == len(events), answer.text


class Report(NamedTuple):
    """units: how many entered. is_complete: false if newer events are missing, as a note says."""

    units: int
    is_complete: bool


def read_report(client: httpx.Client, results: str) -> Report | None:
    """None if the report is refused."""
    answer = client.get(results)
    if answer.status_code == 503:
        assert answer.json()["code"] in ("warehouse_unavailable", "query_timeout"), answer.text
        return None
    assert answer.status_code == 200, answer.text
    report = answer.json()
    is_complete = "not_fresh" not in report["coverage"]["noteCodes"]
    return Report(report["aggregate"]["entered"], is_complete)


def entered(client: httpx.Client, results: str) -> int:
    """The units of the first complete report."""

    def complete_report() -> Report | None:
        report = read_report(client, results)
        return report if report and report.is_complete else None

    report: Report = eventually(complete_report)
    return report.units


def limit_queries(workspace: Tenant, seconds: float | None) -> None:
    limits = {"queryTimeoutSeconds": seconds}
    answer = workspace.browser.patch("/api/settings/workspace", json=limits)
    assert answer.status_code == 200, answer.text


def stored(warehouse: ShardedWarehouse, website: str) -> tuple[int, int, int]:
    """Rows, distinct events, and events that the catalogue counts."""
    [row] = warehouse.query(_STORED, {"website": website})[1]
    [[listed]] = warehouse.query(_LISTED, {"website": website})[1]
    return int(row[0]), int(row[1]), int(listed)


def assert_stored_once(warehouse: ShardedWarehouse, workspace: Tenant, count: int) -> None:
    assert stored(warehouse, workspace.website_id) == (count, count, count)
    counts = counted(workspace)
    assert (counts["received"], counts["stored"], counts["quarantined"]) == (count, count, 0)


def is_ready(server: TestClient[Litestar]) -> bool:
    answer = server.get("/health/ready")
    warehouse: bool = answer.json()["warehouse"]
    assert warehouse or answer.status_code == 503
    return warehouse


def names_silent_shard(server: TestClient[Litestar], position: int) -> bool:
    """Whether `/health/ready` names this shard; the first one also runs the check."""
    answer = server.get("/health/ready")
    document = answer.json()
    assert (answer.status_code, document["warehouse"]) == (503, False)
    assert "127.0.0.1" not in answer.text
    reasons = (None, "Shard 2 of the event store does not respond.")
    return document["reason"] == reasons[position]


@each
@pytest.mark.slow("kills and restarts a server")
def test_while_a_shard_is_down_events_are_accepted_and_reports_refused(
    shards: Shards,
    shard: ClickHouseServer,
    server: TestClient[Litestar],
    workspace: Tenant,
    warehouse: ShardedWarehouse,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, [f"v{number}" for number in range(BATCH)])
    assert entered(workspace.client, results) == BATCH
    assert is_ready(server)
    with down(shard):
        post_batch(workspace, [f"v{number}" for number in range(BATCH, 2 * BATCH)])
        eventually(lambda: names_silent_shard(server, shards.index(shard)))
        answer = workspace.client.get(results)
        assert (answer.status_code, answer.json()["code"]) == (503, "warehouse_unavailable")
    eventually(lambda: is_ready(server))
    assert entered(workspace.client, results) == 2 * BATCH
    assert_stored_once(warehouse, workspace, 2 * BATCH)


@pytest.mark.usefixtures("starts_service")
@only_in_test_shards
@pytest.mark.slow("kills and restarts a server")
def test_doctor_names_a_shard_that_is_down(
    shards: Shards, warehouse: ShardedWarehouse, tmp_path: Path
) -> None:
    data = ("--data", str(tmp_path / "data"))
    assert penstock("migrate", *data).returncode == 0
    assert warehouse.answers()
    with down(shards[1]):
        _, _, checks = doctor(
            *data,
            PENSTOCK_WAREHOUSE_URL=shards[0].url,
            PENSTOCK_WAREHOUSE_CLUSTER=CLUSTER,
        )
    check = checks["event store"]
    assert check["status"] == "failure"
    assert check["message"] == "Shard 2 of the event store does not respond."


@only_in_test_shards
@each
@pytest.mark.slow("waits for the time limit of a query")
def test_while_a_shard_hangs_events_are_accepted_and_reports_refused_in_time(
    shards: Shards,
    shard: ClickHouseServer,
    server: TestClient[Litestar],
    workspace: Tenant,
    warehouse: ShardedWarehouse,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, [f"v{number}" for number in range(BATCH)])
    assert entered(workspace.client, results) == BATCH
    with frozen(shard):
        began_s = time.monotonic()
        post_batch(workspace, [f"v{number}" for number in range(BATCH, 2 * BATCH)])
        assert time.monotonic() - began_s < POST_S
        eventually(lambda: names_silent_shard(server, shards.index(shard)))
        limit_queries(workspace, QUERY_S)
        began_s = time.monotonic()
        assert read_report(workspace.client, results) is None
        assert time.monotonic() - began_s < QUERY_S + 2
        if shard is shards[1]:
            eventually(lambda: shards[0].execute(_QUERIES) == "0")
            assert time.monotonic() - began_s < QUERY_S + 2 + POST_S
    limit_queries(workspace, None)
    eventually(lambda: is_ready(server))
    assert entered(workspace.client, results) == 2 * BATCH
    assert_stored_once(warehouse, workspace, 2 * BATCH)


@only_in_test_shards
@each
@pytest.mark.slow("kills and restarts a server")
def test_merges_that_begin_while_a_shard_is_down_reach_both(
    shard: ClickHouseServer, workspace: Tenant, warehouse: ShardedWarehouse
) -> None:
    results, devices = results_of_a_funnel(workspace.client), [f"d{n}" for n in range(BATCH)]
    post_batch(workspace, devices)
    assert entered(workspace.client, results) == BATCH
    with down(shard):
        for device in devices:
            post(workspace, device, userId="ann")
    assert entered(workspace.client, results) == 1
    assert_stored_once(warehouse, workspace, 2 * BATCH)


@only_in_test_shards
@each
@pytest.mark.slow("kills and restarts a server")
def test_a_deletion_that_begins_while_a_shard_is_down_ends_when_it_is_back(
    shard: ClickHouseServer, workspace: Tenant, warehouse: ShardedWarehouse
) -> None:
    website = workspace.website_id
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, ["ben", *["ann"] * BATCH])
    assert entered(workspace.client, results) == 2
    with down(shard):
        deletion = request_deletion(workspace.client, website, visitorId="ann")
        path = f"/api/deletions/{deletion['id']}"
        waiting = eventually(lambda: (seen := workspace.client.get(path).json())["error"] and seen)
        assert waiting["state"] == "running"
    done = finished(workspace.client, deletion["id"])
    assert (done["error"], done["eventsRemoved"]) == (None, BATCH)
    assert stored(warehouse, website) == (1, 1, 1)
    assert entered(workspace.client, results) == 1


@pytest.mark.slow("kills and restarts a server")
def test_a_query_whose_shard_dies_meets_an_unavailable_store(
    shards: Shards, warehouse: ShardedWarehouse
) -> None:
    def is_running() -> bool:
        running = "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow%'"
        return int(shards[1].execute(f"{running} AND NOT is_initial_query")) > 0

    with ThreadPoolExecutor(1) as pool:
        query = pool.submit(warehouse.query, _SLOW)
        eventually(lambda: query.done() or is_running())
        with down(shards[1]), pytest.raises(StoreUnavailable):
            query.result(PATIENCE_S)


@refusals
@pytest.mark.parametrize("reach", ["both shards", "that shard"])
def test_rows_that_one_shard_refuses_for_a_while_are_all_stored_once(
    shards: Shards,
    workspace: Tenant,
    warehouse: ShardedWarehouse,
    services: Services,
    reach: str,
    refuse: str,
    accept: str,
) -> None:
    """A shipment for both shards begins and ends with rows of the one that refuses them."""
    event, count = {"websiteId": workspace.website_id, "event": "opened", "userId": "ann"}, 0

    def shard_of_next() -> int:
        nonlocal count
        count += 1
        answer = workspace.client.post("/api/v1/events", json=event)
        parameters = {"event": answer.json()["eventId"]}
        [[shard]] = warehouse.query(_SHARD_OF_EVENT, parameters)[1]
        return int(shard)

    def refuses_a_shipment() -> bool:
        assert services.shipper.wait_until_shipped(PATIENCE_S)
        with services.shipper.paused():
            if shard_of_next() == 0:
                return False
            if reach == "both shards":
                eventually(lambda: shard_of_next() == 0)
                eventually(lambda: shard_of_next() == 1)
            shards[1].execute(refuse)
            return True

    eventually(refuses_a_shipment)
    failures = services.shipper.outbox_state().failures
    eventually(lambda: services.shipper.outbox_state().failures > failures + 1)
    shards[1].execute(accept)
    assert services.shipper.wait_until_shipped(PATIENCE_S)
    assert_stored_once(warehouse, workspace, count)


class Load:
    """Sends one event and twenty events by turns, and reads reports meanwhile."""

    def __init__(self, workspace: Tenant, results: str) -> None:
        self._workspace, self._results = workspace, results
        self.acknowledged = self.reports = self.refused = 0
        self._stop, self._faults = Event(), list[BaseException]()

    def _send(self) -> None:
        while not self._stop.is_set():
            post(self._workspace, f"v{self.acknowledged}")
            self.acknowledged += 1
            start = self.acknowledged
            post_batch(self._workspace, [f"v{start + number}" for number in range(BATCH)])
            self.acknowledged += BATCH

    def _read(self) -> None:
        seen = 0
        while not self._stop.is_set():
            before = self.acknowledged
            report = read_report(self._workspace.client, self._results)
            if report is None:
                self.refused += 1
                continue
            self.reports += 1
            # Events of the current request may be stored already.
            at_least = before if report.is_complete else seen
            assert at_least <= report.units <= self.acknowledged + BATCH
            seen = report.units

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as fault:
            self._faults.append(fault)
            self._stop.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [Thread(target=self._run, args=(work,)) for work in (self._send, self._read)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(PATIENCE_S)
            for fault in self._faults:
                raise fault

    def await_more(self) -> None:
        before = self.acknowledged
        eventually(lambda: self._faults or self.acknowledged > before + 2 * BATCH)


@pytest.mark.slow("kills shards again and again under load")
def test_what_was_acknowledged_is_stored_once_though_shards_are_killed(
    shards: Shards,
    workspace: Tenant,
    warehouse: ShardedWarehouse,
    record_property: Callable[[str, object], None],
) -> None:
    kills = max(2, KILLS // 3)
    record_property("kills", kills)
    chance = random.Random(seed := random.randrange(2**32))
    results = results_of_a_funnel(workspace.client)
    load = Load(workspace, results)
    with load.running():
        for number in range(kills):
            load.await_more()
            time.sleep(chance.uniform(0, 0.6))
            with down(shards[number % 2]):
                time.sleep(chance.uniform(0, 0.6))
    print(
        f"{kills} kills (seed {seed}): {load.acknowledged} events, {load.reports} reports,"
        f" {load.refused} more refused"
    )
    assert entered(workspace.client, results) == load.acknowledged
    assert_stored_once(warehouse, workspace, load.acknowledged)
