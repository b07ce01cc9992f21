"""PostgreSQL behind a pooler, without statistics, and as a standby."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import event, text

from penstock.app import Services
from penstock.metadb.database import Database
from penstock.metadb.rows import select_texts
from penstock.metadb.tables import user_links
from penstock.settings import Settings
from tests.postgres import PostgresServer
from tests.tenant import Tenant
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.every_database

_PORT = 6432
"""A part of the name of the pooler's socket."""


@pytest.fixture
def metadb_url(postgres_url: str) -> str:
    return postgres_url


def test_many_ids_are_looked_up_with_the_whole_index_before_any_statistics(
    postgres_server: PostgresServer,
) -> None:
    plans = list[str]()

    def explain(
        _connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> tuple[str, Any]:
        if "FROM unnest" in statement or "IN (" in statement:
            cursor.execute(f"EXPLAIN {statement}", parameters)
            plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return statement, parameters

    with closing(Database(postgres_server.fresh())) as database:
        database.migrate()
        with database.write() as db:
            db.execute(text("ALTER TABLE user_links SET (autovacuum_enabled = false)"))
            db.execute(
                text(
                    "INSERT INTO user_links (scope_id, user_id, visitor_id, created_at) "
                    "SELECT 's', 'user-' || n, 'v-' || n, 1 FROM generate_series(1, 20000) AS n"
                )
            )
        event.listen(database.engine, "before_cursor_execute", explain, retval=True)
        with database.read() as db:
            ids = [f"user-{number}" for number in range(0, 20_000, 200)]
            columns, where = ("user_id", "visitor_id"), {"scope_id": "s"}
            rows = list(select_texts(db, user_links, columns, where, "user_id", ids))
    assert {user_id for user_id, _ in rows} == set(ids[1:])
    [plan] = plans
    assert "Index Cond: ((scope_id = 's'::text) AND (user_id = wanted.value))" in plan


def test_a_server_that_refuses_writes_is_not_ready(
    services: Services, server: TestClient[Litestar], postgres_url: str
) -> None:
    def is_ready() -> bool:
        answer: dict[str, Any] = server.get("/health/ready").json()
        return bool(answer["database"])

    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    assert is_ready()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        try:
            services.database.engine.dispose()
            eventually(lambda: not is_ready())
        finally:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    services.database.engine.dispose()
    assert is_ready()


def test_a_node_opens_no_more_connections_than_its_setting(postgres_url: str) -> None:
    with closing(Database(postgres_url, timeout_s=2, connections=3)) as database:

        def hold(_number: int) -> int:
            with database.read() as db:
                count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                number = int(db.execute(text(count)).scalar_one())
                time.sleep(0.05)
                return number

        with ThreadPoolExecutor(10) as pool:
            assert max(pool.map(hold, range(20))) <= 3


def test_parameters_of_libpq_in_the_address_work(postgres_url: str) -> None:
    query = (
        "options=-c%20work_mem%3D5MB%20-c%20search_path%3Dpublic&application_name=till"
        "&sslmode=allow&connect_timeout=3&keepalives_idle=7"
    )
    with closing(Database(f"{postgres_url}&{query}")) as database:
        database.migrate()
        with database.write() as db:
            shown = ("work_mem", "search_path", "application_name", "statement_timeout")
            values = [db.execute(text(f"SHOW {name}")).scalar_one() for name in shown]
            assert values == ["5MB", "public", "till", "15s"], "beside what Penstock sets"
            connection = db.connection.driver_connection
            assert isinstance(connection, psycopg.Connection)
            sent = connection.info.get_parameters()
        assert (sent["connect_timeout"], sent["keepalives_idle"]) == ("3", "7")
        assert sent["sslmode"] == "allow"


class TestPooler:
    """PgBouncer in transaction mode, with few connections of the server for many clients."""

    @pytest.fixture
    def metadb_url(self, postgres_url: str, postgres_server: PostgresServer) -> Iterator[str]:
        """It listens on a Unix socket alone, in a folder of its own, so no port can be taken."""
        program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
        if program is None:
            pytest.skip("PgBouncer is not installed (Debian: apt install pgbouncer)")
        folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=postgres_server.folder))
        config, users, log = folder / "ini", folder / "users", folder / "log"
        users.write_text('"penstock" ""\n')
        config.write_text(
            f"[databases]\n* = user=penstock host={postgres_server.folder}\n[pgbouncer]\n"
            f"listen_addr =\nlisten_port = {_PORT}\nunix_socket_dir = {folder}\n"
            f"auth_type = any\nauth_file = {users}\npool_mode = transaction\n"
            "default_pool_size = 4\n"
        )
        account: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            postgres = pwd.getpwnam("postgres")
            account = {"user": postgres.pw_uid, "group": postgres.pw_gid, "extra_groups": []}
            for path in (folder, config, users):  # the files may be private to this user
                os.chown(path, postgres.pw_uid, postgres.pw_gid)
        with log.open("wb") as output:
            process = subprocess.Popen([program, config], stdout=output, stderr=output, **account)
        name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        url = f"postgresql://penstock@/{name}?host={folder}&port={_PORT}&connect_timeout=5"

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text("utf-8")
            return answers(url)

        try:
            eventually(is_ready)
            yield url
        finally:
            process.kill()  # the signals of a soft end differ between its versions
            process.wait(timeout=PATIENCE_S)

    def test_events_of_many_requests_at_once_are_stored(
        self, workspace: Tenant, services: Services, settings: Settings
    ) -> None:
        def post(number: int) -> int:
            body = {"websiteId": workspace.website_id, "event": "e", "userId": f"u-{number % 7}"}
            return workspace.client.post("/api/v1/events", json=body).status_code

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(post, range(300))) == {202}
        assert services.database.answers()
        with services.database.exclusive_lock(17) as is_mine:
            assert is_mine
            assert services.database.is_running(17)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
