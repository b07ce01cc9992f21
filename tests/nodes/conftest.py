"""Two nodes: two applications in one process that share a PostgreSQL database and an event
store.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services, build_services
from penstock.base.clock import Clock
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.stores import Stores
from penstock.warehouse.client import Warehouse
from tests.applications import application
from tests.conftest import ShiftedClock
from tests.recording_warehouse import RecordingWarehouse
from tests.tenant import BASE_URL, Tenant, sign_up, visitor


@dataclass(frozen=True)
class Node:
    """A running node. client: sends an API key of the workspace. browser: sends its owner's
    session.
    """

    services: Services
    server: TestClient[Litestar]
    client: httpx.Client
    browser: httpx.Client


@pytest.fixture
def metadb_url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def warehouse(warehouse: Warehouse) -> RecordingWarehouse:
    return RecordingWarehouse(warehouse)


@pytest.fixture
def clock_of(clock: ShiftedClock) -> Callable[[str, Database], Clock]:
    """A function that returns the clock of a node. Both have the same one by default."""
    return lambda _name, _database: clock


@pytest.fixture
def servers(
    settings: Settings,
    tmp_path: Path,
    clock_of: Callable[[str, Database], Clock],
    warehouse: RecordingWarehouse,
) -> Iterator[list[tuple[Services, TestClient[Litestar]]]]:
    """Both running nodes, each with its own data folder."""
    with ExitStack() as stack:
        running = []
        for name in ("first", "second"):
            (folder := tmp_path / name).mkdir()
            own = settings.model_copy(
                update={"data": folder, "secret_key_file": tmp_path / "secret.key"}
            )
            database = Database(own.metadb_url, own.limits.database_timeout_s)
            clock = clock_of(name, database)
            services = build_services(own, clock, stores=Stores(database, warehouse))
            server = TestClient(application(services), base_url=BASE_URL)
            running.append((services, stack.enter_context(server)))
        yield running


@pytest.fixture
def workspace(servers: list[tuple[Services, TestClient[Litestar]]]) -> Tenant:
    services, server = servers[0]
    return sign_up(server, services.accounts.setup_token)


@pytest.fixture
def nodes(
    servers: list[tuple[Services, TestClient[Litestar]]], workspace: Tenant
) -> tuple[Node, Node]:
    """Two nodes. The first node has created everything so far."""
    key = {"Authorization": workspace.client.headers["Authorization"]}
    (services, server), (others, other) = servers
    browser = visitor(other)
    browser.cookies.update(workspace.browser.cookies)
    return (
        Node(services, server, workspace.client, workspace.browser),
        Node(others, other, visitor(other, key), browser),
    )
