"""Replicas that die or hang: reports stay right, and nothing is lost or doubled."""

import time

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services
from penstock.warehouse.client import Warehouse
from tests.events.deletions.conftest import finished, request_deletion
from tests.replicas.cluster import ReplicatedCluster
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.warehouse.test_shard_faults import (
    BATCH,
    Report,
    assert_stored_once,
    entered,
    limit_queries,
    post_batch,
    read_report,
)
from tests.warehouse.test_shards import results_of_a_funnel

pytestmark = [pytest.mark.full("replicas"), pytest.mark.slow("stops and restarts servers")]

QUERY_S = 10.0
"""Time limit of a query. A server notices after three seconds that another one hangs."""

each = pytest.mark.parametrize("number", range(4), ids="server {}".format)


def visitors(start: int) -> list[str]:
    return [f"v{number}" for number in range(start, start + BATCH)]


def assert_ready_without(server: TestClient[Litestar], *replicas: str) -> None:
    """The node is ready, and names these replicas."""
    answer = server.get("/health/ready")
    assert answer.status_code == 200, answer.text
    names = " and ".join(replicas)
    noun, verb = ("Replica", "does") if len(replicas) == 1 else ("Replicas", "do")
    assert answer.json()["reason"] == f"{noun} {names} of the event store {verb} not respond."


def name_of(cluster: ReplicatedCluster, number: int) -> str:
    member = cluster.servers[number].member
    return f"{member.replica} of shard {member.shard}"


@each
def test_reports_go_on_while_one_server_of_four_is_down(
    cluster: ReplicatedCluster,
    number: int,
    server: TestClient[Litestar],
    workspace: Tenant,
    warehouse: Warehouse,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    cluster.servers[number].kill()
    post_batch(workspace, visitors(BATCH))
    assert entered(workspace.client, results) == 2 * BATCH
    assert_ready_without(server, name_of(cluster, number))
    cluster.heal()
    assert entered(workspace.client, results) == 2 * BATCH
    assert_stored_once(warehouse, workspace, 2 * BATCH)
    assert server.get("/health/ready").json()["reason"] is None


@pytest.mark.parametrize("number", [1, 2, 3], ids="server {}".format)
def test_the_other_replica_answers_in_time_for_one_that_hangs(
    cluster: ReplicatedCluster,
    number: int,
    server: TestClient[Litestar],
    workspace: Tenant,
    warehouse: Warehouse,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    limit_queries(workspace, QUERY_S)
    cluster.servers[number].freeze()
    began_s = time.monotonic()
    assert read_report(workspace.client, results) == Report(BATCH, is_complete=True)
    assert time.monotonic() - began_s < QUERY_S + 2
    assert_ready_without(server, name_of(cluster, number))
    post_batch(workspace, visitors(BATCH))
    assert entered(workspace.client, results) == 2 * BATCH
    cluster.heal()
    assert entered(workspace.client, results) == 2 * BATCH
    assert_stored_once(warehouse, workspace, 2 * BATCH)


def test_a_report_is_refused_while_a_shard_has_no_replica(
    cluster: ReplicatedCluster, server: TestClient[Litestar], workspace: Tenant
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    for replica in cluster.servers[2:]:
        replica.kill()
    assert read_report(workspace.client, results) is None
    answer = server.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "Shard 2 of the event store does not respond."
    cluster.heal()
    assert entered(workspace.client, results) == BATCH


def test_a_node_stays_ready_while_a_deletion_waits_for_a_replica(
    cluster: ReplicatedCluster,
    server: TestClient[Litestar],
    services: Services,
    workspace: Tenant,
    warehouse: Warehouse,
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, ["ben", *["ann"] * BATCH])
    assert entered(workspace.client, results) == 2
    cluster.servers[3].kill()
    deletion = request_deletion(workspace.client, workspace.website_id, visitorId="ann")
    path = f"/api/deletions/{deletion['id']}"
    waiting = eventually(lambda: (seen := workspace.client.get(path).json())["error"] and seen)
    assert waiting["state"] == "running"
    assert waiting["error"].startswith("A replica of the event store does not respond")
    assert services.losses.compare() is not None
    assert_ready_without(server, name_of(cluster, 3))
    workers = server.get("/health/ready").json()["workers"]
    assert [each["name"] for each in workers if each["failingSince"]] == []
    cluster.heal()
    assert finished(workspace.client, deletion["id"])["eventsRemoved"] == BATCH
    assert entered(workspace.client, results) == 1
