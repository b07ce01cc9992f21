"""Connections to the metadata DB, with one way to read and one way to write for both databases.

Only this module and `changes` handle errors of the driver. Callers that read or write get
`StoreUnavailable`, `ConcurrentUpdate` or `StoreConflict` (see `penstock.base.errors`); any other
error from SQLAlchemy is a bug.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic, sleep

import structlog
from sqlalchemy import Connection, QueuePool, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from penstock.base.errors import DISK_IS_FULL, ConcurrentUpdate, StoreConflict, StoreUnavailable
from penstock.base.schema_version import NewerSchema
from penstock.metadb import postgres, sqlite
from penstock.metadb.changes import Changes

log = structlog.get_logger()

TIMEOUT_S = 15.0
CONNECTIONS = 20

_CONCURRENCY_STATES = ("40001", "40P01", "55P03")  # serialization failure, deadlock, lock timeout
_CONFLICT_STATES = (
    "23505", "23503",  # PostgreSQL: unique violation, foreign key violation
    "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_FOREIGNKEY",
)  # fmt: skip
_GROWING = (
    text("CREATE TABLE space_probe (content BLOB)"),
    text("INSERT INTO space_probe VALUES (zeroblob(1048576))"),
    text("DROP TABLE space_probe"),
)
"""Statements that succeed only if the file of SQLite can grow. They leave nothing behind."""
_FULL_RETRY_S = 30
"""Seconds after which senders may try again if the disk is full."""
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:work)")
_IS_LOCKED = text("""
    SELECT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 1
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND classid::bigint = (CAST(:work AS bigint) >> 32 & 4294967295)
            AND objid::bigint = (CAST(:work AS bigint) & 4294967295)
    )
""")
_MAY_IDLE = text("SET LOCAL idle_in_transaction_session_timeout = 0")
_LOCK_PAUSE_S = 0.02
_MIGRATION_LOCK = 7305808869229538671
_SCHEMA_LOCK = 7305808869229538670
"""Lock that every write shares, and that a migration takes for itself."""
_SCHEMA_OF_WRITE = (
    f"SELECT pg_try_advisory_xact_lock_shared({_SCHEMA_LOCK}); "  # noqa: S608 - a number
    "SELECT version_num FROM alembic_version"
)
"""Two statements in one message. The second one reads what was committed before the lock."""
_SCHEMA = "schema"
"""Topic of changes: the version of the schema."""
# After copying fewer pages than this, wait for the long pause. Later commits rewrite some of the
# pages, which then need to be copied only once.
_MANY_PAGES = 300
_SHORT_PAUSE_S, _LONG_PAUSE_S = 0.1, 2.0
# these are prefixes, because SQLite has more specific names
_DAMAGED_STATES = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
STORE_DAMAGED = "store_damaged"
"""Value of `StoreUnavailable.code` if SQLite has found its file damaged."""
_NOT_A_URL = (
    "PENSTOCK_DATABASE_URL must be a URL such as postgresql://user:password@host/name "
    "or sqlite:///path/to/file"
)
_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"
"""Files named after their version and subject, such as `0004_quarantine.py`."""
_NEWER_SCHEMA = (
    "A newer version of Penstock is upgrading the stores, or has upgraded them: send the request "
    "again later, or to a node of that version."
)
"""Detail of `StoreUnavailable` on a node whose version is too old."""
_UPGRADE_RETRY_S = 5
_READ_ONLY_STATE = "25006"  # the error of a standby, for example during a failover


class InvalidUrl(ValueError):
    """The text is not a database URL. The message is for the operator and does not repeat the
    text.
    """


def read_url(text: str) -> URL:
    """Parse an SQLite or PostgreSQL URL. Raises `InvalidUrl` for any other text.

    Accepts `postgres://`, which some hosting providers write instead of `postgresql://`.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # the port is not a number
        raise InvalidUrl(_NOT_A_URL) from None
    if url.drivername == "postgres":
        url = url.set(drivername="postgresql")
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        if fault := postgres.options_fault(url):
            raise InvalidUrl(f"PENSTOCK_DATABASE_URL: {fault}")
    elif url.drivername != "sqlite":
        raise InvalidUrl(_NOT_A_URL)
    return url


class Database:
    """An engine and its transactions.

    `read()` yields a connection in a read transaction. `write()` yields a connection in a
    transaction that commits at the end of the block, or rolls back after an error. On SQLite, a
    write acquires the lock when it begins (`BEGIN IMMEDIATE`), so it never fails halfway because of
    another writer.
    """

    def __init__(
        self, url: str, timeout_s: float = TIMEOUT_S, connections: int = CONNECTIONS
    ) -> None:
        """Open a database. It connects on first use.

        timeout_s: maximum seconds for one statement, and on SQLite for acquiring its lock. On
        PostgreSQL, waiting for locks and free connections may take half of it. connections: maximum
        number of connections to PostgreSQL.
        """
        self.url = read_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._timeout_s = timeout_s
        if self.is_sqlite:
            self.engine = sqlite.engine(self.url, timeout_s)
        else:
            self.engine = postgres.engine(self.url, timeout_s, connections)
            self.url = self.engine.url
        self.changes = Changes(self.engine)
        # SQLite allows one writer at a time, and other writers poll up to 100 ms apart. Writers in
        # this process instead take turns and share a connection, because a write through another
        # connection would empty its page cache.
        self._turn = Lock() if self.is_sqlite else None
        self._writer: Connection | None = None
        self._log = sqlite.LogState(0, 0)
        self.is_newer = False
        """Whether a newer Penstock has migrated PostgreSQL while this one was running."""
        self.changes.subscribe(_SCHEMA, self.answers)
        self.damage: str | None = None
        """SQLite's error message if it has found its file damaged, otherwise None."""
        self.is_full = False
        """Whether a write to SQLite found its disk full, until `answers` finds space."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection in a read transaction.

        Raises `StoreUnavailable` and `ConcurrentUpdate`.
        """
        if self.is_newer:
            raise _newer_schema()
        with self._translated_errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a write transaction.

        Raises the same errors as `read`, and `StoreConflict`. On PostgreSQL, no newer Penstock can
        migrate the schema during the transaction, and there is none after it has.
        """
        with self._transaction() as connection:
            if not self.is_sqlite:
                self._require_own_schema(connection)
            yield connection

    def _require_own_schema(self, connection: Connection) -> None:
        cursor = connection.exec_driver_sql(_SCHEMA_OF_WRITE).cursor
        assert cursor is not None
        [[is_free]] = cursor.fetchall()
        cursor.nextset()
        [[version]] = cursor.fetchall()
        self.is_newer = version not in _known_versions()
        if self.is_newer or not is_free:
            raise _newer_schema()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._translated_errors(), self._writer_turn(), self._open_writer() as connection:
            try:
                with connection.begin():
                    yield connection
            except BaseException as error:
                self.is_full = self.is_full or _is_full(error)
                if not _is_rolled_back(error):
                    # The connection's state is unknown; the next write opens another one.
                    self._drop_writer()
                raise

    @contextmanager
    def _writer_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=self._timeout_s):
            raise StoreUnavailable(reason="another write of this process takes too long")
        try:
            yield
        finally:
            self._turn.release()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            # The large cache makes this connection unsuitable for readers.
            self._writer.invalidate()
            self._writer.close()
            self._writer = None

    def _open_writer(self) -> AbstractContextManager[Connection]:
        if not self.is_sqlite:
            return self.engine.connect()
        if self._writer is None:
            writer = self.engine.connect().execution_options(penstock_write=True)
            assert isinstance(writer.connection.dbapi_connection, sqlite3.Connection)
            writer.connection.dbapi_connection.execute(
                f"PRAGMA cache_size={sqlite.WRITER_CACHE_KIB}"
            )
            self._writer = writer
        return nullcontext(self._writer)

    def checkpoint(self) -> float:
        """Copy new pages of SQLite's log into the database file. A worker runs this as its step.

        Returns the seconds until the next step. Raises `StoreUnavailable`. Writers continue during
        the copy: if a commit had to copy 10,000 pages itself, other writers would wait 50 ms or
        more. For a long log, writers wait only while the last few pages are copied; the next commit
        then restarts the log.
        """
        earlier = self._log
        with self._translated_errors(), self.engine.connect() as connection:
            self._log = sqlite.checkpoint(connection)
            if self._log.pages >= sqlite.LONG_LOG_PAGES:
                sqlite.checkpoint(connection)  # Copy the pages that arrived during the first copy.
                with self._writer_turn():
                    self._log = sqlite.checkpoint(connection)
        is_busy = self._log.copied_since(earlier) >= _MANY_PAGES
        return _SHORT_PAUSE_S if is_busy else _LONG_PAUSE_S

    def release_memory(self) -> None:
        """Free the pages that idle connections to SQLite keep in memory. Blocks writers briefly."""
        if not self.is_sqlite:
            return
        with self._translated_errors(), ExitStack() as stack:
            pool = self.engine.pool
            assert isinstance(pool, QueuePool)
            for _ in range(pool.checkedin()):
                sqlite.release_memory(stack.enter_context(self.engine.connect()))
            with self._writer_turn():
                if self._writer is not None:
                    sqlite.release_memory(self._writer)

    @contextmanager
    def exclusive_lock(self, work: int, wait_s: float = 0.0) -> Iterator[bool]:
        """Lock work that only one node may do at a time. Yields whether this node holds the lock.

        work: number that identifies the work on all nodes. wait_s: maximum seconds to wait for
        another node. PostgreSQL uses an advisory lock, which it releases if the node dies. SQLite
        has only one node.
        """
        if self.is_sqlite:
            yield True
        else:
            until_s = monotonic() + wait_s
            with self.read() as connection:
                connection.execute(_MAY_IDLE)
                while (
                    not (is_mine := bool(connection.execute(_TRY_LOCK, {"work": work}).scalar()))
                    and monotonic() < until_s
                ):
                    sleep(_LOCK_PAUSE_S)
                yield is_mine

    def is_running(self, work: int) -> bool:
        """Whether any node holds the `exclusive_lock` for this work. Always False on SQLite."""
        if self.is_sqlite:
            return False
        with self.read() as connection:
            return bool(connection.execute(_IS_LOCKED, {"work": work}).scalar())

    def size(self) -> int:
        """Return the size of the database in bytes. Raises `StoreUnavailable`."""
        sqlite = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        postgresql = "SELECT pg_database_size(current_database())"
        with self.read() as connection:
            return int(
                connection.execute(text(sqlite if self.is_sqlite else postgresql)).scalar_one()
            )

    def answers(self) -> bool:
        """Whether the database answers and accepts writes.

        May block until the statement timeout. Returns False for a PostgreSQL standby, which rejects
        writes, while and after a newer Penstock migrates PostgreSQL, and also once damage has been
        found, because query results may be wrong.
        """
        if self.damage is not None:
            return False
        if self.is_full:
            with suppress(StoreUnavailable), self.write() as connection:
                for statement in _GROWING:
                    connection.execute(statement)
                self.is_full = False
        is_writable = text(
            "SELECT 1"
            if self.is_sqlite
            else "SELECT current_setting('transaction_read_only') = 'off'"
        )
        try:
            with self.read() if self.is_sqlite else self.write() as connection:
                return bool(connection.execute(is_writable).scalar())
        except StoreUnavailable:
            return False

    def quick_check(self, limit_s: float) -> bool:
        """Let SQLite check its file for damage. Raises `StoreUnavailable` if it finds any.

        Returns False if the time limit was too short. Always returns True for PostgreSQL, whose
        server has its own checks.
        """
        if not self.is_sqlite:
            return True
        until_s = monotonic() + limit_s
        with self._translated_errors(), self.engine.connect() as connection:
            message = sqlite.quick_check(connection, until_s)
        if message is None:
            return False
        if message != "ok":
            raise self._damage_error(message.splitlines()[-1])
        return True

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate driver errors into errors of `base.errors`, and remember damage.

        A new connection raises SQLite's errors directly.
        """
        try:
            with _translated_errors():
                yield
        except (DBAPIError, sqlite3.DatabaseError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            state = getattr(cause, "sqlite_errorname", "")
            if state.startswith(_DAMAGED_STATES):
                raise self._damage_error(str(cause)) from error
            if isinstance(error, sqlite3.OperationalError):
                raise StoreUnavailable(reason=str(error)) from error
            raise

    def _damage_error(self, reason: str) -> StoreUnavailable:
        """Build the error for a damaged file. It has no retry time, because the damage does not go
        away.
        """
        if self.damage is None:
            log.error("metadata_database_damaged", reason=reason)
            self.damage = reason
        return StoreUnavailable(
            "The metadata database is damaged: restore a backup.",
            code=STORE_DAMAGED,
            retry_after_s=None,
            reason=f"it is damaged ({reason}); restore a backup",
        )

    @contextmanager
    def migration_lock(self) -> Iterator[None]:
        """Prevent other nodes from migrating either store.

        Does nothing on SQLite, where the lock of the data folder suffices.
        """
        if self.is_sqlite:
            yield
            return
        with self._patient_lock(_MIGRATION_LOCK):
            yield

    @contextmanager
    def _patient_lock(self, key: int) -> Iterator[None]:
        """Hold an advisory lock of PostgreSQL. Other nodes may hold it for long."""
        with self.read() as connection:
            postgres.lift_timeouts(connection)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
            yield

    @staticmethod
    def known_versions() -> Sequence[str]:
        """Return every schema version that this program can read, oldest first."""
        return _known_versions()

    def is_up_to_date(self) -> bool:
        """Whether the schema is at this program's version."""
        return self.version() == self.known_versions()[-1]

    def version(self) -> str | None:
        """Return the schema's version; None for an empty database. Raises `StoreUnavailable`."""
        with self.read() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
            return version

    def migrate(self) -> str:
        """Migrate the schema to this program's version and return that version.

        Each migration has its own transaction, so an interruption leaves the last complete version.
        The caller must hold `migration_lock`. Raises `NewerSchema` if a newer program has migrated
        the database.
        """
        versions = self.known_versions()
        current = self.version()
        if current is not None and current not in versions:
            raise NewerSchema("metadata database", current, versions[-1])
        pending = versions[versions.index(current) + 1 :] if current else versions
        if pending:
            # Wait for the writes of older nodes. They begin none while the lock is held or awaited,
            # and none after the first migration.
            with nullcontext() if self.is_sqlite else self._patient_lock(_SCHEMA_LOCK):
                self._upgrade(pending, is_new=current is None)
        return versions[-1]

    def _upgrade(self, versions: Sequence[str], *, is_new: bool) -> None:
        # Most starts migrate nothing, and Alembic is large.
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", "penstock.metadb:migrations")
        for version in versions:
            if not is_new:  # `penstock.stores` logs the creation
                log.info("metadata_database_migration", version=version)
            with self._transaction() as connection:
                if not self.is_sqlite:
                    # Creating an index on a large table may take long.
                    postgres.lift_timeouts(connection)
                    self.changes.announce(connection, _SCHEMA)
                config.attributes["connection"] = connection
                command.upgrade(config, version)

    def close(self) -> None:
        with self._turn or nullcontext():
            self._drop_writer()
        self.changes.close()
        self.engine.dispose()


@cache
def _known_versions() -> Sequence[str]:
    return sorted(file.name[:4] for file in _MIGRATIONS.glob("[0-9]*.py"))


def _newer_schema() -> StoreUnavailable:
    return StoreUnavailable(_NEWER_SCHEMA, retry_after_s=_UPGRADE_RETRY_S)


def _is_full(error: BaseException) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlite_errorname", "") == "SQLITE_FULL"


def _is_rolled_back(error: BaseException) -> bool:
    """Whether the connection is still usable after a write that failed with this error.

    It is usable if the block itself raised the error, such as `NotFound`, and after a constraint
    violation.
    """
    return isinstance(error, IntegrityError) or not isinstance(error, SQLAlchemyError)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        translated = _translate(error)
        if translated is None:
            raise
        raise translated from error


def _translate(error: SQLAlchemyError) -> Exception | None:
    """Return the error of `base.errors` for a driver error; None for a bug in Penstock."""
    reason = (str(error.orig if isinstance(error, DBAPIError) else error) or "?").splitlines()[0]
    if isinstance(error, PoolTimeout):
        return StoreUnavailable(reason=reason)
    if not isinstance(error, DBAPIError):
        return None
    state = getattr(error.orig, "sqlstate", getattr(error.orig, "sqlite_errorname", None))
    if isinstance(error, IntegrityError):
        return StoreConflict(reason) if state in _CONFLICT_STATES else None
    if state in _CONCURRENCY_STATES:
        return ConcurrentUpdate(reason=reason)
    if _is_full(error):
        return StoreUnavailable(DISK_IS_FULL, retry_after_s=_FULL_RETRY_S, reason=reason)
    is_away = isinstance(error, OperationalError | InterfaceError)
    if is_away or error.connection_invalidated or state == _READ_ONLY_STATE:
        return StoreUnavailable(reason=reason)
    return None
