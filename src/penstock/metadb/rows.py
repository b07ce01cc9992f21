"""Many rows by one statement, for the intake's hot path.

One statement instead of one execution per row: the SQLite driver lets go of Python's interpreter lock at each, and gets it back only when
the event loop, busy with requests, has a pause. Written by hand, because to expand a list into a compiled statement takes longer than to
run it. The names in it come from the tables in code; values are always bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Table

_MOST_ROWS = 500  # times the columns of a row, less than the parameters that either database takes in one statement


def insert_rows(connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of plain values. columns: of the table, in the order of each row's values."""
    for start in range(0, len(rows), _MOST_ROWS):
        chunk = rows[start : start + _MOST_ROWS]
        statement = _insert(table.name, columns, _placeholder(connection), len(chunk))
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(chunk)))


def select_rows(
    connection: Connection, table: Table, columns: tuple[str, ...], where: Mapping[str, Any], column: str, values: Sequence[Any]
) -> Iterator[Sequence[Any]]:
    """Rows whose `column` is one of the values, and whose other columns are as in `where`. columns: which to read."""
    for start in range(0, len(values), _MOST_ROWS):
        chunk = values[start : start + _MOST_ROWS]
        statement = _select(table.name, columns, tuple(where), column, _placeholder(connection), len(chunk))
        yield from connection.exec_driver_sql(statement, (*where.values(), *chunk)).all()


def _placeholder(connection: Connection) -> str:
    return "?" if connection.dialect.paramstyle == "qmark" else "%s"


@lru_cache(maxsize=2000)
def _insert(table: str, columns: tuple[str, ...], placeholder: str, rows: int) -> str:
    row = f"({', '.join([placeholder] * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"  # noqa: S608


@lru_cache(maxsize=2000)
def _select(table: str, columns: tuple[str, ...], where: tuple[str, ...], column: str, placeholder: str, values: int) -> str:
    conditions = [f"{name} = {placeholder}" for name in where]
    conditions.append(f"{column} IN ({', '.join([placeholder] * values)})")
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608
