"""Many rows by one statement, for the intake's hot path.

One statement instead of one execution per row: the SQLite driver lets go of Python's interpreter lock at each, and gets it back only when
the event loop, busy with requests, has a pause. Written by hand, because to expand a list into a compiled statement takes longer than to
run it. The names in it come from the tables in code; values are always bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from msgspec import json
from sqlalchemy import Connection, Table

_SIZES = (256, 64, 16, 4, 1)
"""Rows of one statement. Few sizes, so that a driver finds each statement among those it has prepared: that takes as long as to run one.
256 rows have fewer parameters than either database takes."""


def insert_rows(connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of plain values. columns: of the table, in the order of each row's values."""
    placeholder, start = _placeholder(connection), 0
    for size in _SIZES:
        while len(rows) - start >= size:
            values = tuple(chain.from_iterable(rows[start : start + size]))
            connection.exec_driver_sql(_insert(table.name, columns, placeholder, size), values)
            start += size


def select_rows(
    connection: Connection, table: Table, columns: tuple[str, ...], where: Mapping[str, Any], column: str, values: Sequence[Any]
) -> Iterator[Sequence[Any]]:
    """Rows whose `column` is one of the values, and whose other columns are as in `where`. columns: which to read."""
    for statement, bound in _selects(connection, table, ", ".join(columns), where, column, values):
        yield from connection.exec_driver_sql(statement, bound).all()


def select_texts(
    connection: Connection, table: Table, columns: tuple[str, ...], where: Mapping[str, Any], column: str, values: Sequence[Any]
) -> Iterator[Sequence[Any]]:
    """As `select_rows`, for columns of text where many rows are found: they come as one JSON text, in one row."""
    array, group = ("json_array", "json_group_array") if connection.dialect.name == "sqlite" else ("json_build_array", "json_agg")
    rows_as_json = f"CAST({group}({array}({', '.join(columns)})) AS TEXT)"
    for statement, bound in _selects(connection, table, rows_as_json, where, column, values):
        found: str | None = connection.exec_driver_sql(statement, bound).scalar()
        yield from json.decode(found) if found else ()


def _selects(
    connection: Connection, table: Table, what: str, where: Mapping[str, Any], column: str, values: Sequence[Any]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Statements that find all of the values, with what is bound in each."""
    for start in range(0, len(values), _SIZES[0]):
        chunk = values[start : start + _SIZES[0]]
        size = min(size for size in _SIZES if size >= len(chunk))
        statement = _select(table.name, what, tuple(where), column, _placeholder(connection), size)
        # Filled up with the last value: to ask for it twice changes nothing.
        yield statement, (*where.values(), *chunk, *[chunk[-1]] * (size - len(chunk)))


def _placeholder(connection: Connection) -> str:
    return "?" if connection.dialect.paramstyle == "qmark" else "%s"


@cache
def _insert(table: str, columns: tuple[str, ...], placeholder: str, rows: int) -> str:
    row = f"({', '.join([placeholder] * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"  # noqa: S608


@cache
def _select(table: str, what: str, where: tuple[str, ...], column: str, placeholder: str, values: int) -> str:
    conditions = [f"{name} = {placeholder}" for name in where]
    conditions.append(f"{column} IN ({', '.join([placeholder] * values)})")
    return f"SELECT {what} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608
