"""What tests of every room stand on: real stores, the application over them, workspaces in it.

The embedded engine takes one data folder per process, so the warehouse is one for the whole run; tests are apart by their own
workspaces and websites. The metadata DB is fresh for each test: SQLite, unless a test or a folder says otherwise by a fixture
`metadb_url` of its own, as `return database_url` to run on SQLite and on PostgreSQL.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import psycopg
import pytest
import structlog
from argon2 import PasswordHasher
from litestar import Litestar
from litestar.testing import TestClient
from psycopg import sql

from penstock.accounts import credentials
from penstock.app import Services, build_routes, build_services, with_short_ways
from penstock.base.clock import system_clock
from penstock.metadb.database import Database
from penstock.metadb.tables import metadata
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.postgres import PostgresServer, programs
from tests.tenant import BASE_URL, Tenant, sign_up

_CUT_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class ShiftedClock:
    """The system's clock, put forward by as much as a test wants."""

    ahead_ms = 0

    def __call__(self) -> int:
        return system_clock() + self.ahead_ms

    def advance(self, *, seconds: float = 0, days: float = 0) -> None:
        self.ahead_ms += round((seconds + days * 86_400) * 1000)


class SharedWarehouse(Warehouse):
    """Outlives the applications that use it."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> None:
    """A password hash takes 50 ms and 64 MB on purpose. Tests in this process sign up hundreds of times and take a cheap one."""
    credentials._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    credentials._NOBODY = credentials._hasher.hash("nobody")


@pytest.fixture(scope="session", autouse=True)
def plain_traces() -> None:
    """A trace in the log is by default drawn with every local variable of every call, which takes seconds."""
    *before, _ = structlog.get_config()["processors"]
    structlog.configure(processors=[*before, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    shared = SharedWarehouse(data=tmp_path_factory.mktemp("warehouse"), url=None)
    shared.create_schema()
    yield shared
    Warehouse.close(shared)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    server = PostgresServer(folder)
    yield server
    server.stop()


def _migrated(url: str) -> None:
    database = Database(url)
    database.migrate()
    database.close()


@pytest.fixture(scope="session")
def _migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "penstock.sqlite3"
    _migrated(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def _migrated_postgres(postgres_server: PostgresServer) -> str:
    url = postgres_server.fresh()
    _migrated(url)
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path, _migrated_sqlite: Path) -> str:
    """A fresh, migrated SQLite database."""
    path = tmp_path / "penstock.sqlite3"
    shutil.copy(_migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(_migrated_postgres: str) -> str:
    """A migrated PostgreSQL database without a row: one that is emptied, which is a hundred times quicker than a new one."""
    with psycopg.connect(_migrated_postgres, autocommit=True) as connection:
        connection.execute(_CUT_OTHERS)
        for table in reversed(metadata.sorted_tables):
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)))
    return _migrated_postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database, of each kind in turn."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def metadb_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def settings(tmp_path: Path, metadb_url: str) -> Settings:
    return Settings(data=tmp_path, database_url=metadb_url, public_url=BASE_URL, signup_open=True)


@pytest.fixture
def services(settings: Settings, clock: ShiftedClock, warehouse: Warehouse) -> Iterator[Services]:
    open_services = build_services(settings, clock, warehouse)
    yield open_services
    open_services.database.close()


class CurrentServices:
    """Stands for the services of whichever test runs, so that routes, which take a quarter of a second to make, are made once."""

    now: Services

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now, name)


@pytest.fixture(scope="session")
def current() -> CurrentServices:
    return CurrentServices()


@pytest.fixture(scope="session")
def routes(current: CurrentServices) -> Litestar:
    return build_routes(cast("Services", current))


@pytest.fixture
def server(services: Services, current: CurrentServices, routes: Litestar) -> Iterator[TestClient[Litestar]]:
    """The running application, to be asked without credentials."""
    current.now = services
    with TestClient(with_short_ways(routes, services), base_url=BASE_URL) as running:
        yield running


@pytest.fixture
def workspace(server: TestClient[Litestar], services: Services) -> Tenant:
    return sign_up(server, services.accounts.setup_token)


@pytest.fixture
def other_workspace(server: TestClient[Litestar], workspace: Tenant) -> Tenant:
    """Another workspace of the same installation."""
    return sign_up(server)


@pytest.fixture
def client(workspace: Tenant) -> httpx.Client:
    """Calls with the API key of `workspace`."""
    return workspace.client
