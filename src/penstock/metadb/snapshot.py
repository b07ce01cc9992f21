"""Writes snapshots of the metadata DB to a file while writes continue, and restores them."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from penstock.metadb import postgres
from penstock.metadb.database import Database

SQLITE_FILE = "penstock.sqlite3"
DUMP_FILE = "penstock.pgdump"


class DumpFailed(Exception):
    """`pg_dump` or `pg_restore` is missing or failed. The message is shown to people."""


class Snapshot:
    """A read transaction that sees the whole database at one moment."""

    def __init__(self, database: Database, connection: Connection, exported: str | None) -> None:
        """exported: name under which other PostgreSQL connections can read the same snapshot."""
        self._database, self.connection, self._exported = database, connection, exported

    def write(self, folder: Path) -> Path:
        """Write the database to a file in `folder`. On SQLite, this is a database file.

        Raises `DumpFailed`.
        """
        if self._exported is None:
            path = folder / SQLITE_FILE
            source = self.connection.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            with closing(sqlite3.connect(path)) as target:
                source.backup(target)
        else:
            path = folder / DUMP_FILE
            options = ["--format=custom", "--no-owner", "--no-privileges", f"--file={path}"]
            _run("pg_dump", [*options, f"--snapshot={self._exported}"], self._database.url)
        return path


@contextmanager
def snapshot(database: Database) -> Iterator[Snapshot]:
    """Yield a snapshot of the current state. Raises `StoreUnavailable`."""
    with database.read() as connection:
        if database.is_sqlite:
            # The first read starts the snapshot.
            connection.execute(text("SELECT count(*) FROM sqlite_master"))
            yield Snapshot(database, connection, None)
        else:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            postgres.lift_timeouts(connection)
            exported = connection.execute(text("SELECT pg_export_snapshot()")).scalar_one()
            yield Snapshot(database, connection, str(exported))


def restore_dump(database: Database, dump: Path) -> None:
    """Fill an empty PostgreSQL database from a dump, in one transaction. Raises `DumpFailed`."""
    options = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    target = _drop_password(database.url).render_as_string()
    _run("pg_restore", [*options, f"--dbname={target}", str(dump)], database.url, with_target=False)


def _run(program: str, arguments: Sequence[str], url: URL, *, with_target: bool = True) -> None:
    path = shutil.which(program)
    if path is None:
        raise DumpFailed(
            f"{program} is not installed; install the client programs of PostgreSQL "
            "(Debian: apt install postgresql-client)"
        )
    target = [_drop_password(url).render_as_string()] if with_target else []
    run = subprocess.run(
        [path, *arguments, *target],
        env=_environment(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or ["no reason given"])[0]
        raise DumpFailed(f"{program} failed: {reason}")


def _drop_password(url: URL) -> URL:
    """Return the URL without its password, which would be visible in the process list."""
    return URL.create(
        "postgresql",
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=url.query,
    )


def _environment(url: URL) -> Mapping[str, str]:
    return os.environ | ({"PGPASSWORD": str(url.password)} if url.password else {})
