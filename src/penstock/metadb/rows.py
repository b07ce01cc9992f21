"""Bulk reads and inserts for the intake's hot path.

They use one statement for many rows, because the SQLite driver releases Python's interpreter lock
at each execution, and gets it back only when the busy event loop pauses. The SQL is handwritten,
because expanding a list into a compiled statement takes longer than running it. Table and column
names come from the code; values are always bound.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar, cast, get_type_hints

from msgspec import json
from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, Table

T = TypeVar("T")

_SIZES = (256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Possible numbers of rows in one statement. With few sizes, drivers can reuse prepared statements;
preparing a statement takes as long as running it. Powers of two need the fewest statements for any
number of rows. 256 rows stay below both databases' parameter limits.
"""


def insert_rows(
    connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert rows of plain values. columns: column names, in the order of each row's values."""
    value, start = placeholder(connection), 0
    for size in _SIZES:
        while len(rows) - start >= size:
            values = tuple(chain.from_iterable(rows[start : start + size]))
            connection.exec_driver_sql(_insert(table.name, columns, value, size), values)
            start += size


def select_rows(
    connection: Connection,
    table: Table,
    columns: tuple[str, ...],
    where: Mapping[str, Any],
    column: str,
    values: Sequence[Any],
    *,
    lock: bool = False,
) -> Iterator[Sequence[Any]]:
    """Return the `columns` of rows that match `where` and whose `column` equals one of the values.

    lock: whether to lock the rows until the transaction ends, in the order of the values. SQLite
    needs no row locks, because it has only one writer at a time.
    """
    selected = ", ".join(columns)
    for statement, bound in _selects(connection, table, selected, where, column, values, lock):
        yield from connection.exec_driver_sql(statement, bound).all()


def change_rows(
    connection: Connection,
    change: str,
    where: Mapping[str, Any],
    column: str,
    values: Sequence[Any],
) -> int:
    """Change the rows that match `where` and whose `column` equals one of the values.

    change: the statement up to its conditions, such as `DELETE FROM merges`. Returns the number of
    rows. PostgreSQL gets one statement for each value, for the reason given in `_select`.
    """
    conditions = "".join(f"{name} = {placeholder(connection)} AND " for name in where)
    if connection.dialect.name != "sqlite":
        statement = f"{change} WHERE {conditions}{column} = %s"
        rows = [(*where.values(), value) for value in values]
        return connection.exec_driver_sql(statement, rows).rowcount if rows else 0
    number = 0
    for start in range(0, len(values), _SIZES[0]):
        chunk = values[start : start + _SIZES[0]]
        wanted = ", ".join("?" * len(chunk))
        statement = f"{change} WHERE {conditions}{column} IN ({wanted})"
        number += connection.exec_driver_sql(statement, (*where.values(), *chunk)).rowcount
    return number


def select_texts(
    connection: Connection,
    table: Table,
    columns: tuple[str, ...],
    where: Mapping[str, Any],
    column: str,
    values: Sequence[Any],
) -> Iterator[Sequence[Any]]:
    """Like `select_rows`, for text columns of many rows. The rows arrive as one JSON text."""
    array, group = (
        ("json_array", "json_group_array")
        if connection.dialect.name == "sqlite"
        else ("json_build_array", "json_agg")
    )
    rows_as_json = f"CAST({group}({array}({', '.join(columns)})) AS TEXT)"
    for statement, bound in _selects(connection, table, rows_as_json, where, column, values):
        rows: str | None = connection.exec_driver_sql(statement, bound).scalar()
        yield from json.decode(rows) if rows else ()


def _selects(
    connection: Connection,
    table: Table,
    selected: str,
    where: Mapping[str, Any],
    column: str,
    values: Sequence[Any],
    lock: bool = False,
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield statements that together select all values, each with its parameters."""
    for start in range(0, len(values), _SIZES[0]):
        chunk = values[start : start + _SIZES[0]]
        size = min(size for size in _SIZES if size >= len(chunk))
        value = placeholder(connection)
        statement = _select(table.name, selected, tuple(where), column, value, size, lock)
        # Fill the statement by repeating the last value, which does not change the result.
        values_of_chunk = (*chunk, *[chunk[-1]] * (size - len(chunk)))
        if connection.dialect.name == "sqlite":
            yield statement, (*where.values(), *values_of_chunk)
        else:
            yield statement, (*values_of_chunk, *where.values())


def placeholder(connection: Connection) -> str:
    """Return how the driver's statements name a value."""
    return "?" if connection.dialect.paramstyle == "qmark" else "%s"


@cache
def _insert(table: str, columns: tuple[str, ...], placeholder: str, rows: int) -> str:
    row = f"({', '.join([placeholder] * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"  # noqa: S608


@cache
def _select(
    table: str,
    selected: str,
    where: tuple[str, ...],
    column: str,
    placeholder: str,
    values: int,
    lock: bool,
) -> str:
    conditions, wanted = [f"{name} = {placeholder}" for name in where], [placeholder] * values
    if placeholder == "?":
        conditions.append(f"{column} IN ({', '.join(wanted)})")
        return f"SELECT {selected} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608
    # This makes PostgreSQL look up each value separately, using the whole index. IN (...) would
    # need statistics, which a new table does not have; without them, all rows that match `where`
    # would be read. OFFSET or a lock keeps PostgreSQL from merging the subquery into the outer
    # query.
    conditions.append(f"{column} = wanted.value")
    end = "FOR UPDATE" if lock else "OFFSET 0"
    return (
        f"SELECT {selected} FROM unnest(ARRAY[{', '.join(wanted)}]) AS wanted (value) "  # noqa: S608
        f"CROSS JOIN LATERAL (SELECT * FROM {table} WHERE {' AND '.join(conditions)} {end}) "
        f"AS {table}"
    )


def row_values(record: object, table: Table, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a record's values by column. A column `x` holds the record's field `x` or `x_ms`.

    without: names of columns that the record does not have.
    """
    return {
        column.name: getattr(
            record, column.name if hasattr(record, column.name) else f"{column.name}_ms"
        )
        for column in table.columns
        if column.name not in without
    }


def record_values(row: Row[*tuple[Any, ...]], fields: Iterable[str]) -> dict[str, Any]:
    """Return a row's values by field, for a record with these fields: the inverse of
    `row_values`.
    """
    return {field: row._mapping[field.removesuffix("_ms")] for field in fields}


def record_of(row: Row[*tuple[Any, ...]], record: type[T]) -> T:
    """Return a row as a plain record, converted by the types of its fields.

    A column without a value gives a field its default. record: a dataclass or `NamedTuple`.
    """
    names, adapter = _reader_of(cast("Hashable", record))
    values = {name: value for name, value in record_values(row, names).items() if value is not None}
    result: T = adapter.validate_python(values)
    return result


@cache
def _reader_of(record: Any) -> tuple[Sequence[str], TypeAdapter[Any]]:
    return tuple(get_type_hints(record)), TypeAdapter(record)
