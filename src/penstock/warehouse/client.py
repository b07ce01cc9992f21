"""One client for both engines: chDB in this process, or ClickHouse over HTTP.

Callers get `StoreUnavailable` if the engine cannot be reached, and `QueryFailed` if it refused or
stopped a statement.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from shutil import copyfileobj
from typing import IO, Any, NamedTuple, Protocol, cast

import structlog
from clickhouse_connect.driver.summary import QuerySummary

from penstock.base.errors import StoreUnavailable
from penstock.base.row_files import RowFormat
from penstock.base.temporary_files import temporary_file
from penstock.base.tracing import span
from penstock.warehouse.cluster import (
    Cluster,
    Responses,
    Shards,
    describe_silent_replicas,
    describe_silent_shards,
)
from penstock.warehouse.connections import SQL, Connections, Result
from penstock.warehouse.errors import (
    WAREHOUSE_RIGHT_MISSING,
    QueryFailed,
    explain_failure,
    translate_errors,
    unavailable_error,
)
from penstock.warehouse.queries import load
from penstock.warehouse.readers import RunningStatement
from penstock.warehouse.work import current_work

log = structlog.get_logger()

_PROBE_TABLE = "insert_probe"
_SENT_ROWS = 131_072
"""Rows of a block that a shard sends to others."""


class Shipments(NamedTuple):
    """The shipments of events that the nodes have numbered.

    complete: all up to this number are in the event store. newest: the highest number.
    """

    complete: int
    newest: int


ReadShipments = Callable[[], Shipments]
"""Reads the current numbers from the metadata DB."""
WaitUntilShipped = Callable[[float], bool]
"""Waits until events acknowledged before the call are stored. Returns False if that takes longer
than the given number of seconds.
"""


class RunQuery(Protocol):
    """Runs one statement and returns its column names and rows, like `Warehouse.query`."""

    def __call__(self, sql: str, parameters: Mapping[str, Any] | None = None, /) -> Result: ...


_ENGINE_FORMATS: Mapping[RowFormat, str] = {
    RowFormat.PARQUET: "Parquet",
    RowFormat.NDJSON: "JSONEachRow",
}


class Warehouse(Connections):
    """The event store. Its methods block, so call them from a worker thread.

    A statement belongs to the `Work` of its thread, if any. All methods can raise
    `StoreUnavailable` and `QueryFailed`.
    """

    missing_right: str | None = None
    """The right that Penstock's user lacked when `answers` was last called; None if it lacked none.
    """
    silence: str | None = None
    """A sentence that names the shards or replicas of a cluster that did not respond when `answers`
    was last called; None if all responded.
    """
    _orders_inserts: bool | None = None  # None until the first call.
    _shards: Shards | None = None

    def orders_inserts(self) -> bool:
        """Whether later inserts always get higher block numbers. This is not the case in a
        cluster.
        """
        if self._server is None:
            return True
        if self._orders_inserts is None:
            [[engine]] = self.query(load(SQL, "engine_of_events"))[1]
            self._orders_inserts = engine == "MergeTree"
        return self._orders_inserts

    def shards(self) -> Shards | None:
        """Return the shards; None without a cluster or with a single shard.

        They are read once, because a new shard needs a restart of all nodes.
        """
        if self.cluster is None:
            return None
        if self._shards is None:
            responses = Responses.of(self.query_at_once(self.cluster.check_shards)[1])
            database = self._writer.database or "default"
            self._shards = Shards(self.cluster.name, database, responses.total)
        return self._shards if self._shards.number > 1 else None

    def query(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Result:
        """Run one statement and return its column names and rows.

        parameters: values that the engine binds to `{name:Type}`; they never enter the SQL text.

        Raises `Stopped` if the work of this thread was stopped.
        """
        with self._open_reader(sql, settings) as statement:
            result = statement.run(
                lambda: statement.client.query(
                    *self._render(sql, parameters), settings=dict(statement.settings)
                )
            )
            if work := current_work():
                work.rows_read += int(result.summary.get("read_rows", 0))
        return result.column_names, result.result_rows

    def send_to_shards(
        self, sql: str, parameters: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> None:
        """Run an INSERT from `Shards.read` on every shard: each sends its own rows.

        Raises `Stopped` like `query`.
        """
        sending = {
            "parallel_distributed_insert_select": 1,
            # A single stream sends all rows of a server for a shard to the same replica.
            "max_insert_threads": 1,
            # A server receives rows of all servers at once. Larger blocks would take memory for
            # each of them, and save little time.
            "max_block_size": min(settings.get("max_block_size", _SENT_ROWS), _SENT_ROWS),
            "preferred_block_size_bytes": 8 * 1024**2,
            "min_insert_block_size_rows": _SENT_ROWS,
            "min_insert_block_size_bytes": 0,
        }
        with self._open_reader(sql, {**settings, **sending}) as statement:
            sent = statement.run(
                lambda: statement.client.command(
                    *self._render(sql, parameters), settings=dict(statement.settings)
                )
            )
            if (work := current_work()) and isinstance(sent, QuerySummary):
                work.rows_read += int(sent.summary.get("read_rows", 0))

    def drop_exchange(self, exchange: int) -> None:
        """Drop the rows of an exchange without waiting for the servers. If that fails, the engine
        drops them when their time has passed.
        """
        # With this limit, the statement ends before the servers have run it.
        at_once = "SETTINGS distributed_ddl_task_timeout = 0"
        try:
            self.command(
                f"ALTER TABLE exchanged_local DROP PARTITION {exchange} {at_once}", at_once=True
            )
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("exchange_not_dropped", error=str(error))

    def fetch_rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one statement and return its rows.

        Raises `Unavailable` if the statement exceeds the limits of its work.
        """
        return self._fetch(sql, parameters)[1]

    def fetch_dicts(self, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Like `fetch_rows`, but returns each row as a dictionary keyed by column name."""
        names, rows = self._fetch(sql, parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _fetch(self, sql: str, parameters: Mapping[str, Any]) -> Result:
        try:
            return self.query(sql, parameters)
        except QueryFailed as error:
            raise explain_failure(error) from error

    def table_sizes(self) -> Sequence[Sequence[Any]]:
        """Return each table's name, number of rows and bytes on disk, largest first.

        Does not wait for other queries.
        """
        return self.query_at_once(load(SQL, "sizes"))[1]

    @contextmanager
    def stream_blocks(
        self, sql: str, parameters: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> Iterator[Iterator[Result]]:
        """Run one statement and stream its rows in blocks of about 10,000, with column names.

        The connection stays in use until the context ends.
        """
        text, fields = self._render(sql, parameters)
        with self._open_reader(sql, settings) as statement:
            all_settings = dict(statement.settings)
            if self._server is None:  # chDB cannot stream a statement that has separate settings.
                text, all_settings = f"{text} SETTINGS {_settings_sql(all_settings)}", {}
            with closing(
                statement.blocks(
                    lambda: statement.client.query_row_block_stream(
                        text, fields, settings=all_settings
                    )
                )
            ) as blocks:
                yield blocks

    def write_file(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        file_format: RowFormat,
    ) -> IO[bytes]:
        """Run one statement, and let the engine write its rows to a temporary file.

        Returns the file, rewound. It has no name, so it is deleted when it is closed.
        """
        text, fields = self._render(sql, parameters)
        engine_format = _ENGINE_FORMATS[file_format]
        write = self._write_embedded_file if self._server is None else self._write_server_file
        with self._open_reader(sql, settings) as statement:
            return statement.run(lambda: write(statement, text, fields, engine_format))

    def _write_server_file(
        self, statement: RunningStatement, text: str, fields: dict[str, Any], engine_format: str
    ) -> IO[bytes]:
        # Wait for the end of the query, so that an error cannot look like the end of a file.
        options = {**statement.settings, "wait_end_of_query": 1}
        with temporary_file() as file:
            source = statement.client.raw_stream(text, fields, options, fmt=engine_format)
            with closing(cast("IO[bytes]", source)) as rows:
                copyfileobj(rows, file)
        return file

    def _write_embedded_file(
        self, statement: RunningStatement, text: str, fields: dict[str, Any], engine_format: str
    ) -> IO[bytes]:
        with self._engine_file(engine_format) as path:
            statement.client.command(
                f"{text} INTO OUTFILE {_literal(str(path))} FORMAT {engine_format} "
                f"SETTINGS {_settings_sql(statement.settings)}",
                fields,
            )
            path.touch(exist_ok=True)  # The engine writes no file without rows.
            return path.open("rb")

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        """Store rows durably. Returns False if the embedded engine added nothing.

        rows: one JSON object per line. Fields must be in `columns`; missing fields get defaults.
        token: identifies the insert. The engine ignores an insert whose token it has already seen.
        """
        settings = {
            "insert_deduplication_token": token,
            # If a crash left the view without the rows, repeating the insert fills it without
            # duplicates.
            "deduplicate_blocks_in_dependent_materialized_views": 1,
            "async_insert": 0,
            "date_time_input_format": "best_effort",
            # Parsing in several threads makes an insert about 5% slower.
            "input_format_parallel_parsing": 0,
        }
        attributes = {"db.system.name": "clickhouse", "db.collection.name": table}
        with span("warehouse insert", attributes), translate_errors():
            if self._server is not None:
                self._writer.raw_insert(
                    table, columns, insert_block=rows, fmt="JSONEachRow", settings=settings
                )
                return True
            self._written.prepare(table)
            # The driver would write the rows to the system's temporary folder, and a killed process
            # would leave them there.
            with self._engine_file("jsonl") as file:
                try:
                    file.write_bytes(rows)
                    self._writer.command(
                        f"INSERT INTO {table} ({', '.join(columns)}) "
                        f"FROM INFILE {_literal(str(file))} "
                        f"SETTINGS {_settings_sql(settings)} FORMAT JSONEachRow"
                    )
                except OSError as error:
                    self._written.pause_merges()
                    raise unavailable_error(str(error)) from error
            return self._written.check(table)

    def insert_selected(
        self, table: str, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> bool:
        """Run an `INSERT INTO table SELECT` durably.

        Returns False if the embedded engine added nothing.
        """
        if self._server is None:
            self._written.prepare(table)
        self.command(sql, parameters)
        return self._server is not None or self._written.check(table)

    def accepts_inserts(self) -> bool:
        """Whether a small insert succeeds now. The insert opens, writes and syncs files."""
        try:
            self.command(load(SQL, "empty_probe"))
            return self.insert_selected(_PROBE_TABLE, load(SQL, "probe"))
        except (QueryFailed, StoreUnavailable):
            return False

    def resume_merges(self) -> None:
        """Let the engine merge again if a failed write has paused merges and writes succeed
        again.
        """
        if self._written.may_resume and self.accepts_inserts():
            self._written.resume_merges()

    def answers(self) -> bool:
        """Whether the engine responds now. In a cluster, one replica of every shard must respond.

        Sets `missing_right` and `silence`.
        """
        try:
            if self.cluster is None:
                self.query_at_once("SELECT 1")
            else:
                self._check_cluster(self.cluster)
            # A server that hangs cannot tell its rights in the time of this check.
            if self._server is not None and self.silence is None:
                self._check_rights()
        except StoreUnavailable as error:
            self._note_right(error)
            return False
        except (QueryFailed, OSError):
            return False
        return True

    def _check_cluster(self, cluster: Cluster) -> None:
        silence = None
        try:
            shards = self._responses(cluster, cluster.check_shards)
            silence = describe_silent_shards(shards)
            if silence or not shards.total:
                raise unavailable_error("a shard does not respond")
            servers = self._responses(cluster, cluster.check_servers)
            silence = describe_silent_replicas(servers, shards.total)
        finally:
            self.silence = silence

    def _responses(self, cluster: Cluster, check: str) -> Responses:
        try:
            rows = self.query_at_once(check, settings=cluster.check_settings)[1]
        except StoreUnavailable:
            # If the server had an open connection to one that hangs, it closed the connection.
            rows = self.query_at_once(check, settings=cluster.check_settings)[1]
        return Responses.of(rows)

    def _check_rights(self) -> None:
        try:
            self.query_at_once(load(SQL, "tables_of_the_system"))
            self.missing_right = None
        except StoreUnavailable as error:  # Another replica may take over.
            self._note_right(error)

    def _note_right(self, error: StoreUnavailable) -> None:
        if error.code == WAREHOUSE_RIGHT_MISSING and error.reason != self.missing_right:
            self.missing_right = error.reason
            log.error("event_store_right_missing", right=error.reason)


def _settings_sql(settings: Mapping[str, Any]) -> str:
    """Format settings as SQL. They come from code and operator limits, never from a request."""
    return ", ".join(f"{name} = {_literal(value)}" for name, value in settings.items())


def _literal(value: Any) -> str:
    return (
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, str)
        else str(int(value) if isinstance(value, bool) else value)
    )
