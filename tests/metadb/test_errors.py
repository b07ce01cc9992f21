"""The errors of the metadata DB, as the rest of the service sees them."""

import ast
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError, ProgrammingError

import penstock
from penstock.base.errors import ConcurrentUpdate, NotFound, StoreConflict, StoreUnavailable
from penstock.metadb.database import Database, InvalidUrl
from penstock.metadb.tables import outbox, visitors
from tests.source_tree import nodes_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.every_database

DRIVERS = ("sqlalchemy.exc", "clickhouse_connect", "psycopg", "sqlite3", "chdb")
BOUNDARIES = ("metadb/", "warehouse/")
PRIVATE_SQLITE = "events/imports/entries.py"  # counts lines in its own temporary file


def add_visitor(database: Database) -> None:
    row = {"scope_id": "s", "visitor_id": "v", "canonical_id": "v", "created_at": 1}
    with database.write() as db:
        db.execute(insert(visitors).values(row))


def test_a_constraint_is_a_conflict(database: Database) -> None:
    add_visitor(database)
    with pytest.raises(StoreConflict):
        add_visitor(database)
    with pytest.raises(StoreConflict):  # and the connection is usable
        add_visitor(database)


def add_and_refuse(database: Database) -> None:
    with database.write() as db:
        db.execute(insert(outbox).values(target="events", lines=""))
        raise NotFound("No such link.")


def test_a_refused_write_costs_the_writer_neither_its_connection_nor_its_cache(
    sqlite_url: str,
) -> None:
    database = Database(sqlite_url)
    add_visitor(database)
    with database.write() as db:
        before = db.connection.dbapi_connection
    with pytest.raises(NotFound):
        add_and_refuse(database)
    with pytest.raises(StoreConflict):
        add_visitor(database)
    with database.write() as db:
        assert db.connection.dbapi_connection is before
        assert db.execute(select(outbox)).all() == []
    database.close()


def test_no_free_connection_is_unavailable(database: Database) -> None:
    with ExitStack() as stack:
        for _ in range(database.engine.pool.size() + database.engine.pool._max_overflow):
            stack.enter_context(database.read())
        database.engine.pool._timeout = 0.4
        with pytest.raises(StoreUnavailable):
            stack.enter_context(database.read())
    assert database.answers()


def test_a_missing_value_is_a_bug(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as db:
        db.execute(insert(visitors).values(scope_id="s", visitor_id="v"))


def test_a_bug_stays_a_bug(postgres_url: str) -> None:
    database = Database(postgres_url)
    with pytest.raises(ProgrammingError), database.read() as db:
        db.execute(text("SELECT nothing FROM nowhere"))
    database.close()


def test_a_server_that_refuses_is_unavailable() -> None:
    database = Database("postgresql://127.0.0.1:1/none")
    with pytest.raises(StoreUnavailable) as raised, database.read():
        pass
    assert "127.0.0.1" in raised.value.reason
    assert "127.0.0.1" not in raised.value.detail
    database.close()


@pytest.mark.parametrize("url", ["", "shop", "postgresql//host"])
def test_an_invalid_url_is_named_so(url: str) -> None:
    with pytest.raises(InvalidUrl):
        Database(url)


def test_a_lock_that_is_not_released_is_a_concurrent_update(postgres_url: str) -> None:
    holding, database = Database(postgres_url), Database(postgres_url, timeout_s=0.4)
    with holding.write() as holder:
        holder.execute(text("LOCK TABLE outbox"))
        with pytest.raises(ConcurrentUpdate), database.write() as db:
            db.execute(insert(outbox).values(target="events", lines=""))
    holding.close()
    database.close()


def test_a_deadlock_is_a_concurrent_update(postgres_url: str) -> None:
    database = Database(postgres_url)
    both_locked = threading.Barrier(2)
    errors: list[Exception] = []

    def lock(first: str, second: str) -> None:
        try:
            with database.write() as db:
                db.execute(text(f"LOCK TABLE {first}"))
                both_locked.wait()
                db.execute(text(f"LOCK TABLE {second}"))
        except Exception as error:
            errors.append(error)

    threads = [
        threading.Thread(target=lock, args=pair)
        for pair in (("outbox", "visitors"), ("visitors", "outbox"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [ConcurrentUpdate]
    database.close()


def test_a_statement_that_takes_too_long_is_unavailable(postgres_url: str) -> None:
    database = Database(postgres_url, timeout_s=0.4)
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable), database.read() as db:
        db.execute(text("SELECT pg_sleep(300)"))
    assert time.monotonic() - began_s < PATIENCE_S
    database.close()


def test_only_the_stores_know_their_drivers_errors() -> None:
    root = Path(penstock.__file__).parent
    offenders = [
        f"{path.relative_to(root)} imports {name}"
        for path in root.rglob("*.py")
        if not str(path.relative_to(root)).startswith((*BOUNDARIES, PRIVATE_SQLITE))
        for name in imported_names(path)
        if name.startswith(DRIVERS)
    ]
    assert offenders == []


def imported_names(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
