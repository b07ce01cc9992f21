"""Deletions and imports on a cluster with replicas, and a ZooKeeper that is down."""

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services
from penstock.base.clock import iso, system_clock
from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import CLUSTER
from tests.events.deletions.conftest import finished, request_deletion
from tests.postgres import PostgresServer
from tests.replicas.cluster import ReplicatedCluster
from tests.replicas.test_faults import visitors
from tests.serving import Served
from tests.tenant import Tenant
from tests.waiting import PATIENCE_S, eventually
from tests.warehouse.test_shard_faults import (
    BATCH,
    assert_stored_once,
    entered,
    post_batch,
    stored,
)
from tests.warehouse.test_shards import post, results_of_a_funnel

pytestmark = [pytest.mark.full("replicas"), pytest.mark.slow("needs four servers")]

LINES = 3000
MS_PER_DAY = 86_400_000


def test_events_wait_and_reports_go_on_while_zookeeper_is_down(
    cluster: ReplicatedCluster,
    server: TestClient[Litestar],
    workspace: Tenant,
    warehouse: Warehouse,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    cluster.zookeeper.kill()
    assert entered(workspace.client, results) == BATCH
    post_batch(workspace, visitors(BATCH))
    report = workspace.client.get(results).json()
    assert report["aggregate"]["entered"] == BATCH
    assert "not_fresh" in report["coverage"]["noteCodes"]
    assert server.get("/health/ready").status_code == 200
    cluster.heal()
    assert entered(workspace.client, results) == 2 * BATCH
    assert_stored_once(warehouse, workspace, 2 * BATCH)


def test_a_deletion_reaches_every_replica(
    cluster: ReplicatedCluster, workspace: Tenant, warehouse: Warehouse
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, ["ben", *["ann"] * BATCH])
    assert entered(workspace.client, results) == 2
    deletion = request_deletion(workspace.client, workspace.website_id, visitorId="ann")
    assert finished(workspace.client, deletion["id"])["eventsRemoved"] == BATCH
    assert stored(warehouse, workspace.website_id) == (1, 1, 1)
    count = "SELECT count() FROM penstock.events_local"
    for first, second in (cluster.servers[:2], cluster.servers[2:]):
        assert first.execute(count) == second.execute(count)
    assert entered(workspace.client, results) == 1


def test_retention_removes_old_events_while_a_replica_returns(
    cluster: ReplicatedCluster, services: Services, workspace: Tenant, warehouse: Warehouse
) -> None:
    old = iso(system_clock() - 10 * MS_PER_DAY)
    post(workspace, "ann", timestamp=old)
    post(workspace, "ben")
    services.shipper.wait_until_shipped(PATIENCE_S)
    cluster.sync()
    cluster.servers[2].kill()
    address = f"/api/settings/websites/{workspace.website_id}"
    assert workspace.client.patch(address, json={"eventRetentionDays": 5}).status_code == 200
    services.retention.worker.wake()
    [deletion] = eventually(lambda: workspace.client.get("/api/deletions").json()["data"])
    cluster.heal()
    assert finished(workspace.client, deletion["id"])["eventsRemoved"] == 1
    assert stored(warehouse, workspace.website_id) == (1, 1, 1)


def imported(node: Served, job: str) -> Any:
    def done() -> Any:
        answer = node.client.get(f"/api/imports/{job}").json()
        return answer if answer["state"] in ("done", "failed") else None

    return eventually(done)


@pytest.mark.usefixtures("starts_service")
def test_two_nodes_import_one_file_while_servers_die(
    cluster: ReplicatedCluster,
    warehouse: Warehouse,
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> None:
    settings = {
        "PENSTOCK_DATABASE_URL": postgres_server.fresh(),
        "PENSTOCK_WAREHOUSE_URL": cluster.url,
        "PENSTOCK_WAREHOUSE_CLUSTER": CLUSTER,
        "PENSTOCK_SECRET_KEYS": urlsafe_b64encode(b"k" * 32).decode(),
        "PENSTOCK_NODES": "2",
    }
    lines = "".join(
        f'{{"type":"event","name":"opened","visitorId":"v{n}","dedupeKey":"e{n}",'
        f'"timestamp":"2026-01-01T00:00:00Z"}}\n'
        for n in range(LINES)
    ).encode()
    with Served(tmp_path / "a", **settings) as first, Served(tmp_path / "b", **settings) as second:
        key, website = first.first_account()
        second.client.headers["Authorization"] = f"Bearer {key}"
        jobs = [upload(node.client, website, lines) for node in (first, second)]
        cluster.servers[3].kill()
        for node, job in zip((first, second), jobs, strict=True):
            ended = imported(node, job)
            assert ended["state"] == "done"
        cluster.heal()
        second.await_shipped()
        assert stored(warehouse, website) == (LINES, LINES, LINES)


def upload(client: httpx.Client, website: str, content: bytes) -> str:
    answer = client.post(
        "/api/imports",
        params={"websiteId": website},
        content=content,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
