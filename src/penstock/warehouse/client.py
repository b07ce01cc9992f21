"""One client for both shapes of the engine: chDB in this process, or ClickHouse over HTTP. The same SQL for both.

A connection to chDB runs one statement at a time, so there are several to one engine: one for writing, one for watching and stopping, which
must never wait, and a few for reading.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import clickhouse_connect
import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from penstock.base.errors import Unavailable
from penstock.warehouse.queries import load
from penstock.warehouse.work import Stopped, Work, current_work

log = structlog.get_logger()

_LOOK_S = 0.1  # how often someone in the queue looks whether the work was stopped meanwhile
_LONGEST_PAUSE_S = 0.5
_LAST_STATEMENTS_S = 10.0
TIMEOUT_EXCEEDED, MEMORY_LIMIT_EXCEEDED, _QUERY_WAS_CANCELLED = 159, 241, 394
"""Error codes of the engine."""

WaitUntilShipped = Callable[[float], bool]
"""Waits until events acknowledged before the call are in the store, that many seconds at most; False when that was not enough."""


class QueryFailed(Exception):
    """The engine refused or stopped a statement. code: the engine's error code, 0 when it gave none."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Progress(NamedTuple):
    """How far a work is. rows_to_read: the engine's estimate of what the statements begun so far read in all; it may rise."""

    rows_read: int
    rows_to_read: int


class Warehouse:
    """The events store. Its methods block; call them from a worker thread. What a thread asks belongs to its `Work`, if it has one."""

    def __init__(self, *, data: Path, url: str | None, readers: int = 4) -> None:
        """readers: how many statements may read at once; more wait."""
        self._data, self._url = data / "warehouse", url
        if url is None:
            self._data.mkdir(parents=True, exist_ok=True)
        self._writer, self._watcher = self._connect(), self._connect()
        self._readers: LifoQueue[Client | None] = LifoQueue()  # the one used last first; None: not connected yet
        for _ in range(readers):
            self._readers.put(None)
        self._reader_count = readers
        self._begun: set[Work] = set()
        self._closing = Lock()

    def _connect(self) -> Client:
        if self._url is None:
            return clickhouse_connect.get_client(interface="chdb", path=str(self._data))
        return clickhouse_connect.get_client(dsn=self._url, autogenerate_session_id=False)

    def create_schema(self) -> None:
        """Create what is missing. Safe to run again."""
        statements = files("penstock.warehouse").joinpath("sql/schema.sql").read_text("utf-8").split(";\n")
        for statement in statements:
            if statement.strip():
                self.command(statement)

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement that answers nothing."""
        try:
            self._writer.command(sql, parameters=dict(parameters or {}))
        except ClickHouseError as error:
            raise _failed(error) from error

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Column names and rows of one statement. parameters: bound by the engine (`{name:Type}`), never put into the text.

        Stopped, when its work was.
        """
        with self._reading(settings) as (client, all_settings):
            result = client.query(sql, parameters=dict(parameters or {}), settings=all_settings)
            if work := current_work():
                work.rows_read += int(result.summary.get("read_rows", 0))
        return result.column_names, result.result_rows

    def ask(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Rows of one statement, as `query`; Unavailable when the engine does not answer within the limits."""
        return self._asked(sql, parameters)[1]

    def ask_by_name(self, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """As `ask`, each row by the names of its columns."""
        names, rows = self._asked(sql, parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _asked(self, sql: str, parameters: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        try:
            return self.query(sql, parameters)
        except QueryFailed as error:
            raise explained(error) from error

    @contextmanager
    def _reading(self, settings: Mapping[str, Any] | None) -> Iterator[tuple[Client, dict[str, Any]]]:
        """A connection for one statement, and the settings that make it a part of this thread's work."""
        work = current_work()
        client = self._take_reader(work)
        try:
            client = client or self._connect()
            if work is None:
                yield client, dict(settings or {})
                return
            with work.in_engine():
                self._begun.add(work)
                yield client, {**work.limits, **(settings or {}), "log_comment": work.id}
        except ClickHouseError as error:
            failed = _failed(error)
            if failed.code == _QUERY_WAS_CANCELLED and work is not None and work.stopped:
                raise Stopped from error
            raise failed from error
        finally:
            if work is not None:
                self._begun.discard(work)
            self._readers.put(client)

    def _take_reader(self, work: Work | None) -> Client | None:
        """Wait for a connection that is free; None stands for one that is still to be made."""
        while True:
            if work is not None:
                work.check()
            try:
                return self._readers.get(timeout=_LOOK_S)
            except Empty:
                continue

    def progress(self, work: Work) -> Progress:
        """How far a work is. Never waits for a statement."""
        shared = work.awaited
        ended = work.rows_read + (shared.rows_read if shared else 0)
        parameters = {"works": [work.id, *([shared.id] if shared else [])]}
        try:
            [[read, to_read]] = self._watcher.query(load("progress"), parameters=parameters).result_rows
        except ClickHouseError as error:
            raise _failed(error) from error
        return Progress(ended + read, ended + max(read, to_read))

    def stop(self, work: Work) -> None:
        """Stop a work, wherever it is: what waits does not begin, what runs in the engine ends there. Returns when nothing of it runs."""
        for ended in work.stop():
            pause_s = 0.02
            while not ended.wait_idle(0):
                # Asked again and again: the statement may be on its way to the engine, which does not know it yet.
                try:
                    self._watcher.command(load("stop"), parameters={"work": ended.id})
                except ClickHouseError as error:
                    log.warning("statement_not_stopped", error=str(error))
                ended.wait_idle(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    @contextmanager
    def blocks(
        self, sql: str, parameters: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> Iterator[Iterator[tuple[Sequence[str], Sequence[Sequence[Any]]]]]:
        """Column names and rows of one statement, some ten thousand rows at a time. The connection is busy until the context ends."""
        with self._reading(settings) as (client, all_settings):
            # Written into the statement, because an embedded engine streams no statement that has settings beside it.
            told = ", ".join(f"{name} = {_literal(value)}" for name, value in all_settings.items())
            with client.query_row_block_stream(f"{sql} SETTINGS {told}", parameters=dict(parameters)) as stream:
                yield ((stream.source.column_names, block) for block in stream)

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> None:
        """Store rows, one JSON object a line, durably. A repeat of the same token changes nothing.

        Values that are not in `columns` are refused by the engine; columns that a row leaves out take their defaults.
        """
        settings = {
            "insert_deduplication_token": token,
            "deduplicate_blocks_in_dependent_materialized_views": 1,  # a repeat fills up what a view lacks and doubles nothing
            "async_insert": 0,
            "date_time_input_format": "best_effort",
        }
        try:
            self._writer.raw_insert(table, columns, insert_block=rows, fmt="JSONEachRow", settings=settings)
        except ClickHouseError as error:
            raise _failed(error) from error

    def answers(self) -> bool:
        """Whether the engine can be asked right now."""
        try:
            self._watcher.command("SELECT 1")
        except (ClickHouseError, OSError):
            return False
        return True

    def close(self) -> None:
        """Stop what still reads, and close the engine."""
        with self._closing:
            until_s = monotonic() + _LAST_STATEMENTS_S
            for work in tuple(self._begun):
                self.stop(work)
            for _ in range(self._reader_count):
                try:
                    reader = self._readers.get(timeout=max(0.0, until_s - monotonic()))
                except Empty:
                    break
                if reader is not None:
                    reader.close()
            self._watcher.close()
            self._writer.close()


def _literal(value: Any) -> str:
    """A setting as SQL. Settings come from the code and from operators' limits, never from a request."""
    return f"'{value}'" if isinstance(value, str) else str(int(value) if isinstance(value, bool) else value)


def _failed(error: ClickHouseError) -> QueryFailed:
    message = str(error)
    head = message.partition("Code: ")[2].partition(".")[0]
    return QueryFailed(message, int(head) if head.isdigit() else 0)


def explained(error: QueryFailed) -> Exception:
    """What a caller can be told of a statement that failed; any other failure is ours."""
    if error.code == TIMEOUT_EXCEEDED:
        return Unavailable("The query took longer than the workspace's queryTimeoutSeconds. Ask for less.", code="query_timeout")
    if error.code == MEMORY_LIMIT_EXCEEDED:
        return Unavailable("The query needed more memory than the workspace's queryMemoryBytes. Ask for less.", code="query_too_large")
    return unavailable() if error.code in (0, _QUERY_WAS_CANCELLED) else error


def unavailable() -> Unavailable:
    return Unavailable("The event store does not answer right now; try again.", code="warehouse_unavailable")
