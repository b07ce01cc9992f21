"""One client for both shapes of the engine: chDB in this process, or ClickHouse over HTTP. The same SQL for both."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from penstock.base.errors import Unavailable


class QueryFailed(Exception):
    """The engine refused or stopped a statement. code: the engine's error code, 0 when it gave none."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Warehouse:
    """The events store. Its methods block; call them from a worker thread."""

    def __init__(self, *, data: Path, url: str | None) -> None:
        if url is None:
            folder = data / "warehouse"
            folder.mkdir(parents=True, exist_ok=True)
            self._client: Client = clickhouse_connect.get_client(interface="chdb", path=str(folder))
        else:
            self._client = clickhouse_connect.get_client(dsn=url, autogenerate_session_id=False)
        self._closing = Lock()

    def create_schema(self) -> None:
        """Create what is missing. Safe to run again."""
        statements = files("penstock.warehouse").joinpath("sql/schema.sql").read_text("utf-8").split(";\n")
        for statement in statements:
            if statement.strip():
                self.command(statement)

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement that answers nothing."""
        try:
            self._client.command(sql, parameters=dict(parameters or {}))
        except ClickHouseError as error:
            raise _failed(error) from error

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Column names and rows of one statement. parameters: bound by the engine (`{name:Type}`), never put into the text."""
        try:
            result = self._client.query(sql, parameters=dict(parameters or {}), settings=dict(settings or {}))
        except ClickHouseError as error:
            raise _failed(error) from error
        return result.column_names, result.result_rows

    @contextmanager
    def blocks(
        self, sql: str, parameters: Mapping[str, Any], settings: Mapping[str, int | float]
    ) -> Iterator[Iterator[tuple[Sequence[str], Sequence[Sequence[Any]]]]]:
        """Column names and rows of one statement, some ten thousand rows at a time. Other statements may wait until the context ends.

        settings: written into the statement, because an embedded engine streams no statement with settings beside it.
        """
        told = ", ".join(f"{name} = {value:d}" if isinstance(value, int) else f"{name} = {value}" for name, value in settings.items())
        try:
            with self._client.query_row_block_stream(f"{sql} SETTINGS {told}", parameters=dict(parameters)) as stream:
                yield ((stream.source.column_names, block) for block in stream)
        except ClickHouseError as error:
            raise _failed(error) from error

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
            self._client.raw_insert(table, columns, insert_block=rows, fmt="JSONEachRow", settings=settings)
        except ClickHouseError as error:
            raise _failed(error) from error

    def answers(self) -> bool:
        """Whether the engine can be asked right now."""
        try:
            self._client.command("SELECT 1")
        except (ClickHouseError, OSError):
            return False
        return True

    def close(self) -> None:
        with self._closing:
            self._client.close()


def _failed(error: ClickHouseError) -> QueryFailed:
    message = str(error)
    head = message.partition("Code: ")[2].partition(".")[0]
    return QueryFailed(message, int(head) if head.isdigit() else 0)


def unavailable(error: QueryFailed) -> Unavailable:
    return Unavailable("The event store does not answer right now; try again.", code="warehouse_unavailable")
