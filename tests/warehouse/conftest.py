"""Fixtures for an event store over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from tests import clickhouse_database
from tests.clickhouse_server import ClickHouseServer
from tests.proxy import FaultyProxy


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that can use an installed server, to select them with `pytest -m clickhouse`."""
    assert isinstance(item, pytest.Function)
    if "clickhouse_url" in item.fixturenames:
        item.add_marker("clickhouse")


@contextmanager
def migrated(url: str, data: Path) -> Iterator[Warehouse]:
    warehouse = Warehouse(data=data, url=url, readers=12)
    migrations.migrate(warehouse)
    yield warehouse
    warehouse.close()


@pytest.fixture(scope="session")
def clickhouse_url(
    starts_database: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a new database, on the server at `PENSTOCK_TEST_CLICKHOUSE_URL` if it is set."""
    if not clickhouse_database.URL:
        yield request.getfixturevalue("clickhouse").url
        return
    with clickhouse_database.new_database(tmp_path_factory.mktemp("data")) as url:
        yield url


@pytest.fixture(scope="module")
def over_http(clickhouse_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A warehouse on any server, including an installed server."""
    with migrated(clickhouse_url, tmp_path_factory.mktemp("data")) as warehouse:
        yield warehouse


@pytest.fixture(scope="module")
def own_http(
    clickhouse: ClickHouseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warehouse]:
    """A warehouse on the server that the tests started."""
    with migrated(clickhouse.url, tmp_path_factory.mktemp("data")) as warehouse:
        yield warehouse


@pytest.fixture
def proxy(clickhouse: ClickHouseServer) -> Iterator[FaultyProxy]:
    """A proxy between the client and the server."""
    proxy = FaultyProxy(clickhouse.port)
    yield proxy
    proxy.close()


@pytest.fixture
def behind_proxy(
    proxy: FaultyProxy, clickhouse: ClickHouseServer, own_http: Warehouse, tmp_path: Path
) -> Iterator[Warehouse]:
    """A second client for the server of `own_http`, connected through the proxy."""
    url = clickhouse.url_behind(proxy.port)
    warehouse = Warehouse(data=tmp_path, url=url, readers_per_owner=4)
    yield warehouse
    warehouse.close()
