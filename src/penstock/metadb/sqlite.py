"""SQLite connections, the copying of the write-ahead log, and the check of the file."""

import sqlite3
from time import monotonic
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Engine, create_engine, event

from penstock.base.errors import StoreUnavailable

# Negative values are in KiB. The readers' caches are small: each commit empties them, and every
# connection in the pool would have to refill its own.
_READER_CACHE_KIB, WRITER_CACHE_KIB = -4096, -65536
LONG_LOG_PAGES = 10_000  # 40 MB
_CHECK_STEPS = 10_000


class LogState(NamedTuple):
    """State of SQLite's write-ahead log. copied: number of pages of the log that are also in the
    database file.
    """

    pages: int
    copied: int

    def copied_since(self, earlier: "LogState") -> int:
        """Return the number of pages copied since an earlier state. If the log has restarted since
        then, counts from its start.
        """
        return self.copied - (earlier.copied if self.copied >= earlier.copied else 0)


def engine(url: URL, timeout_s: float) -> Engine:
    """Create the engine. timeout_s: maximum seconds for acquiring the lock."""
    created = create_engine(url, hide_parameters=True, pool_timeout=timeout_s / 2)

    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        _prepare(connection, round(timeout_s * 1000))

    event.listen(created, "connect", prepare)
    event.listen(created, "begin", _begin)
    return created


def _prepare(connection: sqlite3.Connection, busy_timeout_ms: int) -> None:
    # Switch off the driver's own transactions, because they begin too late and are never IMMEDIATE.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout={busy_timeout_ms}",
        "journal_mode=WAL",
        "synchronous=FULL",  # Every commit syncs the log, so acknowledged writes are on disk.
        # Commands have no worker that calls `checkpoint`, so their commits copy the log.
        f"wal_autocheckpoint={2 * LONG_LOG_PAGES}",
        # A log of normal size is overwritten in place. A log that has grown because of a long read
        # is truncated again.
        "journal_size_limit=80000000",
        "foreign_keys=ON",
        f"cache_size={_READER_CACHE_KIB}",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("penstock_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def checkpoint(connection: Connection) -> LogState:
    """Copy pages without waiting. Pages that a reader still needs stay in the log."""
    driver = connection.connection.dbapi_connection  # a checkpoint cannot run in a transaction
    assert isinstance(driver, sqlite3.Connection)
    try:
        _, pages, copied = driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error as error:
        raise StoreUnavailable(reason=str(error)) from error
    return LogState(pages, copied)


def release_memory(connection: Connection) -> None:
    """Free the connection's cached pages."""
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.execute("PRAGMA shrink_memory")


def quick_check(connection: Connection, until_s: float) -> str | None:
    """Return the result of SQLite's check of its file, `ok` or the damage; None if time is up.

    until_s: time of `monotonic` at which the check ends.
    """
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.set_progress_handler(lambda: monotonic() > until_s, _CHECK_STEPS)
    try:
        [message] = driver.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        driver.set_progress_handler(None, 0)
    return str(message)
