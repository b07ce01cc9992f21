"""What is particular to SQLite: its log, and how it gets into the database file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.metadb.database import Database
from tests.tenant import Tenant
from tests.waiting import eventually

MEGABYTE = 1_000_000
LONG = 45 * MEGABYTE


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'penstock.sqlite3'}")
    with database.write() as db:
        db.execute(text("CREATE TABLE t (x BLOB)"))
    yield database
    database.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.sqlite3"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "penstock.sqlite3-wal"


def write(database: Database, size: int) -> None:
    with database.write() as db:
        db.execute(text("INSERT INTO t VALUES (randomblob(:size))"), {"size": size})


def test_the_log_shrinks_again_after_a_long_read(database: Database, log: Path) -> None:
    with database.read() as db:
        db.execute(text("SELECT count(*) FROM t"))
        write(database, 100 * MEGABYTE)
    assert log.stat().st_size > 100 * MEGABYTE
    for _ in range(3):
        write(database, 1)
    assert log.stat().st_size <= 80 * MEGABYTE


def test_a_checkpoint_copies_what_is_new(database: Database, file: Path) -> None:
    before = file.stat().st_size
    write(database, MEGABYTE)
    assert file.stat().st_size == before, "a commit does not copy so little"
    database.checkpoint()
    assert file.stat().st_size > before + MEGABYTE


def test_the_next_checkpoint_is_soon_only_while_much_is_written(database: Database) -> None:
    write(database, 10 * MEGABYTE)
    busy_s = database.checkpoint()
    write(database, 1)
    idle_s = database.checkpoint()
    write(database, LONG)
    assert database.checkpoint() == busy_s < idle_s == database.checkpoint()


def test_a_long_log_begins_again_after_a_checkpoint(database: Database, log: Path) -> None:
    for _ in range(3):
        write(database, LONG)
        database.checkpoint()
    assert log.stat().st_size < 2 * LONG


def test_a_checkpoint_waits_for_no_reader(database: Database, log: Path) -> None:
    with database.read() as db:
        db.execute(text("SELECT count(*) FROM t"))
        write(database, LONG)
        database.checkpoint()
        write(database, LONG)
        assert db.execute(text("SELECT count(*) FROM t")).scalar_one() == 0
    assert log.stat().st_size > 2 * LONG, "the log has what the reader had not seen"


@pytest.mark.usefixtures("warehouse")
def test_a_service_copies_its_log_while_it_runs(workspace: Tenant, file: Path) -> None:
    before = file.stat().st_mtime_ns
    workspace.browser.post("/api/settings/api-keys", json={"name": "other"}).raise_for_status()
    eventually(lambda: file.stat().st_mtime_ns > before)
