"""Two nodes on a cluster with replicas that are upgraded in turn, while clients send to both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.warehouse.client import Warehouse
from penstock.warehouse.migrations import migrations
from tests.clickhouse_server import CLUSTER, DATABASE
from tests.nodes.test_rolling_upgrade import node_settings, upgrade_in_turn
from tests.postgres import PostgresServer
from tests.replicas.cluster import ReplicatedCluster

pytestmark = [pytest.mark.full("replicas"), pytest.mark.slow("needs four servers")]


@pytest.fixture
def upgraded(cluster: ReplicatedCluster) -> Iterator[ReplicatedCluster]:
    """A cluster whose tables belong to this release again after the test."""
    yield cluster
    newest = migrations()[-1].version
    for server in cluster.servers:
        server.execute(f"ALTER TABLE {DATABASE}.schema_migrations DELETE WHERE version > {newest}")


@pytest.mark.usefixtures("starts_service")
def test_two_nodes_on_replicas_are_upgraded_in_turn_under_load(
    upgraded: ReplicatedCluster,
    warehouse: Warehouse,
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> None:
    settings = node_settings(postgres_server.fresh(), upgraded.url)
    upgrade_in_turn(tmp_path, {**settings, "PENSTOCK_WAREHOUSE_CLUSTER": CLUSTER}, warehouse)
