"""Connections to the metadata DB: one way to read, one way to write, the same for SQLite and PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

_BUSY_TIMEOUT_MS = 30_000


class Database:
    """An engine and its transactions.

    `read()` gives a connection in a read transaction, `write()` in one that commits at the end of the block or rolls back at an error.
    On SQLite a write takes the lock at its beginning (`BEGIN IMMEDIATE`), so that it never fails half-way for another writer.
    """

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite and self.url.database:
            Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        if self.url.drivername == "postgresql":
            self.url = self.url.set(drivername="postgresql+psycopg")
        self.engine: Engine = create_engine(
            self.url, hide_parameters=True, **({} if self.is_sqlite else {"pool_pre_ping": True, "pool_size": 10})
        )
        # SQLite has one writer at a time and lets the others poll, up to 100 ms apart; those of this process take turns here instead, and
        # share one connection: a write by another connection would empty its cache of pages.
        self._turn: AbstractContextManager[object] = Lock() if self.is_sqlite else nullcontext()
        self._writer: Connection | None = None
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._turn, self._writing() as connection:
            try:
                with connection.begin():
                    yield connection
            except BaseException:
                self._drop_writer()  # in whatever state it is; the next write opens another
                raise

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _writing(self) -> AbstractContextManager[Connection]:
        if not self.is_sqlite:
            return self.engine.connect()
        if self._writer is None:
            self._writer = self.engine.connect().execution_options(penstock_write=True)
        return nullcontext(self._writer)

    @contextmanager
    def alone(self, work: int) -> Iterator[bool]:
        """Whether this node may do some work now that one node does at a time. work: a number that stands for it; the same on all nodes.

        PostgreSQL: an advisory lock, which a node that dies lets go of. SQLite has one node.
        """
        if self.is_sqlite:
            yield True
        else:
            with self.read() as connection:
                yield bool(connection.execute(text("SELECT pg_try_advisory_xact_lock(:work)"), {"work": work}).scalar())

    def answers(self) -> bool:
        """Whether the database can be asked right now."""
        try:
            with self.read() as connection:
                connection.execute(text("SELECT 1"))
        except DBAPIError:
            return False
        return True

    def migrate(self) -> None:
        """Bring the schema to this version. Safe to run again, and by several nodes at once (PostgreSQL: an advisory lock)."""
        config = Config()
        config.set_main_option("script_location", "penstock.metadb:migrations")
        with self.write() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(7305808869229538671)"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        with self._turn:
            self._drop_writer()
        self.engine.dispose()


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver's own transaction handling is switched off: it would begin too late and never IMMEDIATE.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout={_BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",  # answered means on disk: the WAL is synced at every commit
        "wal_autocheckpoint=10000",  # 40 MB: a page that many commits change is copied back once for all of them
        "foreign_keys=ON",
        "cache_size=-65536",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("penstock_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
