"""Fixtures for all tests: real stores, the application over them, and workspaces.

The embedded engine opens one data folder per process, so all tests of a worker share a warehouse.
Each test has its own workspaces and websites there. The metadata DB is new for each test. It is
SQLite unless a test or a folder overrides `metadb_url`, for example with `return database_url` to
run on SQLite and on PostgreSQL.
"""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import structlog
from hypothesis import settings as hypothesis_settings
from litestar import Litestar
from litestar.testing import TestClient
from psycopg import sql
from sqlalchemy import Engine

from penstock.activity.live import service as live_service
from penstock.app import Services, build_services
from penstock.base.clock import system_clock
from penstock.base.errors import StoreUnavailable
from penstock.edge.layer import EdgeLayer
from penstock.funnels.statements import shared_fold
from penstock.metadb.database import Database
from penstock.metadb.tables import event_ledger, metadata
from penstock.settings import Settings
from penstock.stores import Stores
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from tests import clickhouse_database, programs, scratch, tiers
from tests.answers import Problem
from tests.applications import BorrowedRoutes, application
from tests.clickhouse_server import ClickHouseServer, two_shards
from tests.cpu_times import FileTimer
from tests.mail_server import MailServer, mail_server
from tests.postgres import PostgresServer, program_folder
from tests.processes import end_fork_server
from tests.quick_passwords import hash_cheaply
from tests.run_report import RunReport
from tests.sharded import ShardedWarehouse
from tests.tenant import BASE_URL, SAME_ID, Tenant, sign_up
from tests.waiting import PATIENCE_S
from tests.wired import Wire, wired

# There is no time limit per example, because durations on a busy machine mean nothing.
hypothesis_settings.register_profile("penstock", deadline=None)
hypothesis_settings.load_profile("penstock")

scratch.use_memory()

_DISCONNECT_OTHERS = """
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

_FILLED_TABLES = """
SELECT DISTINCT table
FROM system.parts
WHERE database = currentDatabase() AND active AND table != 'schema_migrations'
"""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RunReport(config))
    config.pluginmanager.register(FileTimer())
    # Objects created during collection live until the end, and searching them for garbage takes 5%
    # of a run. `penstock serve` sets the same threshold.
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    end_fork_server()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.choose(config, items)
    if (workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > 1:
        tiers.arrange_for_workers(items, workers)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show the whole response if its status or code is not the expected one."""
    if isinstance(left, Problem) and op == "==":
        return [f"{tuple(left)} == {right}", left.text]
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Function) -> Iterator[None]:
    programs.enter(item.fixturenames)
    result = yield
    programs.enter()
    return result


class ShiftedClock:
    """The system's clock, which a test can move forward.

    wrong_ms: error of the time of day, in milliseconds. It does not affect elapsed time.
    """

    ahead_ms = 0
    wrong_ms = 0

    def __call__(self) -> int:
        return system_clock() + self.ahead_ms + self.wrong_ms

    def elapsed_ms(self) -> int:
        return system_clock.elapsed_ms() + self.ahead_ms

    def advance(self, *, seconds: float = 0, days: float = 0) -> None:
        self.ahead_ms += round((seconds + days * 86_400) * 1000)


class SharedWarehouse(Warehouse):
    """A warehouse that stays open when an application closes it."""

    def close(self) -> None:
        pass


class NoConnection:
    """A connection on which every statement fails."""

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise StoreUnavailable("This test does not name the fixture `warehouse`.")


class UnreachableWarehouse(SharedWarehouse):
    """A warehouse that cannot be reached."""

    def _connect(self, answer_s: int = 0) -> Any:
        return NoConnection()


def _empty(warehouse: Warehouse) -> None:
    for (table,) in warehouse.query(_FILLED_TABLES)[1]:
        warehouse.command(f"TRUNCATE TABLE {table}")


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> None:
    hash_cheaply()


@pytest.fixture(scope="session", autouse=True)
def patient_live_list() -> None:
    """Give the list of live events enough time, however slow the machine is."""
    live_service._FRESH_WAIT_S = PATIENCE_S


@pytest.fixture(scope="session", autouse=True)
def plain_tracebacks() -> None:
    """Log traces without local variables, which would take seconds to print."""
    *before, _ = structlog.get_config()["processors"]
    structlog.configure(
        processors=[
            *before,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    )


@pytest.fixture(scope="session")
def starts_service() -> None:
    """Named by tests that start a Penstock service or command."""
    programs.allow("starts_service")


@pytest.fixture(scope="session")
def starts_database() -> None:
    """Named by tests that start a PostgreSQL or ClickHouse server."""
    programs.allow("starts_database")


@pytest.fixture(scope="session")
def clickhouse(
    starts_database: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClickHouseServer]:
    """A ClickHouse server."""
    server = ClickHouseServer(tmp_path_factory.mktemp("clickhouse"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shards(
    starts_database: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClickHouseServer, ClickHouseServer]]:
    """Two ClickHouse servers, which are the shards of a cluster."""
    with two_shards(tmp_path_factory.mktemp("shards")) as servers:
        yield servers


@pytest.fixture(scope="session")
def sharded(
    shards: tuple[ClickHouseServer, ClickHouseServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShardedWarehouse]:
    """An event store on two shards, which share the folds of few events too."""
    warehouse = ShardedWarehouse(tmp_path_factory.mktemp("sharded"), shards)
    migrations.migrate(warehouse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_fold, "WORTH_SHARING", 0)
        yield warehouse
    warehouse.close_all()


@pytest.fixture(scope="session")
def _shared_warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warehouse]:
    folder = tmp_path_factory.mktemp("warehouse")
    shared: Warehouse
    match os.environ.get("PENSTOCK_TEST_ENGINE", "embedded"):
        case "http":
            shared = SharedWarehouse(data=folder, url=request.getfixturevalue("clickhouse").url)
        case "shards":
            yield request.getfixturevalue("sharded")
            return
        case "cluster":
            with clickhouse_database.cluster_warehouse(folder) as cluster:
                migrations.migrate(cluster)
                yield cluster
            return
        case _:
            shared = SharedWarehouse(data=folder, url=None)
    migrations.migrate(shared)
    yield shared
    Warehouse.close(shared)


@pytest.fixture(scope="module")
def warehouse(_shared_warehouse: Warehouse) -> Iterator[Warehouse]:
    """The event store shared by all tests, on the engine named by `PENSTOCK_TEST_ENGINE`.

    Its tables are emptied after each test file, because every statement lists a table's parts and
    slows down as they accumulate.
    """
    yield _shared_warehouse
    _empty(_shared_warehouse)


@pytest.fixture(scope="session")
def postgres_server(starts_database: None) -> Iterator[PostgresServer]:
    folder = program_folder()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    programs.allow("starts_database")  # a test before this one may have requested that fixture
    server = PostgresServer(folder)
    yield server
    server.stop()


class CompiledStatements:
    """Statements compiled by any test of this process, shared between the tests' databases.

    An engine compiles each statement once, and each test has its own engine. Without sharing,
    compiling would take a third of a short test.
    """

    def __init__(self, engine: Engine) -> None:
        """engine: must have connected, so that its dialect knows the server."""
        self._dialect, self._cache = engine.dialect, dict[Any, Any]()

    def share(self, engine: Engine) -> None:
        engine.dialect = self._dialect
        engine.update_execution_options(compiled_cache=self._cache)


_compiled: dict[str, CompiledStatements] = {}
"""Compiled statements by database dialect."""


def _migrated(url: str) -> None:
    database = Database(url)
    database.migrate()
    database.close()
    _compiled[database.engine.name] = CompiledStatements(database.engine)


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
    """A new, migrated SQLite database."""
    path = tmp_path / "penstock.sqlite3"
    shutil.copy(_migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(_migrated_postgres: str) -> str:
    """A migrated PostgreSQL database without rows.

    All tests of a worker share it, because deleting its rows is a hundred times faster than
    creating a database.
    """
    with psycopg.connect(_migrated_postgres, autocommit=True) as connection:
        connection.execute(_DISCONNECT_OTHERS)
        connection.execute(
            sql.SQL(";").join(
                sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name))
                for table in reversed(metadata.sorted_tables)
                if table is not event_ledger  # its only row must remain
            )
        )
        connection.execute("UPDATE event_ledger SET stored = 0, removed = 0, shipment = 0")
    return _migrated_postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A new, migrated database: runs the test once for each kind."""
    url: str = request.getfixturevalue(
        "sqlite_url" if request.param == "sqlite" else "postgres_url"
    )
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def metadb_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture(scope="session")
def _settings() -> Settings:
    """Settings shared by all tests. Reading the environment for each test takes a tenth of a short
    test.
    """
    return Settings(
        public_url=BASE_URL,
        signup_open=True,
        # On a slow machine, a report could otherwise come from stored outcomes when a test does not
        # expect it.
        stored_outcomes=0,
    ).with_limits(fresh_wait_s=PATIENCE_S, receipt_wait_s=0)


@pytest.fixture
def settings(tmp_path: Path, metadb_url: str, _settings: Settings) -> Settings:
    return _settings.model_copy(update={"data": tmp_path, "database_url": metadb_url})


@pytest.fixture
def event_store(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    """The event store of the application. In `make quick`, it cannot be reached: tests that use it
    name the fixture `warehouse`, and are left out there.
    """
    if tiers.TIER is tiers.Tier.QUICK:
        return UnreachableWarehouse(data=tmp_path, url=None)
    warehouse: Warehouse = request.getfixturevalue("warehouse")
    return warehouse


@pytest.fixture
def services(settings: Settings, clock: ShiftedClock, event_store: Warehouse) -> Iterator[Services]:
    database = Database(settings.metadb_url, settings.limits.database_timeout_s)
    if compiled := _compiled.get(database.engine.name):
        compiled.share(database.engine)
    open_services = build_services(settings, clock, stores=Stores(database, event_store))
    yield open_services
    open_services.database.close()


@pytest.fixture
def edge(services: Services) -> EdgeLayer:
    return application(services)


@pytest.fixture
def server(edge: EdgeLayer) -> Iterator[TestClient[Litestar]]:
    """The running application, for requests without credentials."""
    with TestClient(edge, base_url=BASE_URL) as running:
        running.headers.update(SAME_ID)
        yield running


@pytest.fixture
def wire(server: TestClient[Litestar], edge: EdgeLayer, services: Services) -> Iterator[Wire]:
    """The running application, called over its real protocol."""
    with wired(server, edge, services.connections) as wire:
        yield wire


@pytest.fixture
def forbid_framework(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function. After it is called, requests that reach the framework fail."""

    async def fail(*_: object) -> None:
        raise AssertionError("this request reached the framework")

    return lambda: monkeypatch.setattr(BorrowedRoutes, "__call__", fail)


@pytest.fixture
def workspace(server: TestClient[Litestar], services: Services) -> Tenant:
    return sign_up(server, services.accounts.setup_token)


@pytest.fixture
def other_workspace(server: TestClient[Litestar], workspace: Tenant) -> Tenant:
    """Another workspace of the same installation."""
    return sign_up(server)


@pytest.fixture
def client(workspace: Tenant) -> httpx.Client:
    """A client with the API key of `workspace`."""
    return workspace.client


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server
