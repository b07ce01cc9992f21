"""Fixtures for a cluster with replicas, which `make test-replicas` sets up."""

import os
import shutil
from collections.abc import Iterator

import pytest

from penstock.funnels.statements import shared_fold
from penstock.settings import Settings
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import Cluster
from tests.clickhouse_server import CLUSTER
from tests.conftest import SharedWarehouse
from tests.replicas.cluster import REPLICATED, ZOOKEEPER, ReplicatedCluster, replicated_cluster
from tests.replicas.complete_engine import ENGINE, is_known_engine


@pytest.fixture(scope="session")
def _cluster(
    starts_database: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedCluster]:
    if os.environ.get("PENSTOCK_TEST_ENGINE") != "replicas":
        pytest.skip("starts four servers and ZooKeeper: see `make test-replicas`")
    if not is_known_engine():
        pytest.skip(f"replicas need the engine {ENGINE}")
    if not ZOOKEEPER.exists() or shutil.which("java") is None:
        pytest.skip("ZooKeeper is not installed (Debian: apt install zookeeper)")
    with replicated_cluster(tmp_path_factory.mktemp("replicas")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _migrated(
    _cluster: ReplicatedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warehouse]:
    warehouse = SharedWarehouse(
        data=tmp_path_factory.mktemp("data"), url=_cluster.url, cluster=Cluster(CLUSTER)
    )
    migrations.migrate(warehouse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_fold, "WORTH_SHARING", 0)
        yield warehouse
    Warehouse.close(warehouse)


@pytest.fixture
def cluster(_cluster: ReplicatedCluster, _migrated: Warehouse) -> Iterator[ReplicatedCluster]:
    """Four servers that run, with empty tables."""
    _cluster.heal()
    for table in (*REPLICATED, "clicks_local"):
        _migrated.command(f"TRUNCATE TABLE {table.removesuffix('_local')}")
    _cluster.sync()
    yield _cluster
    _cluster.heal()


@pytest.fixture
def warehouse(cluster: ReplicatedCluster, _migrated: Warehouse) -> Warehouse:
    return _migrated


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.with_limits(fresh_wait_s=2.0)
