"""Writes tables to CSV, JSON or Parquet files, block by block.

A row has a label, values of properties that identify it, and figures. One row is the total.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Literal, NamedTuple

from msgspec import json

from penstock.base.patterns import Pattern
from penstock.base.scalar import Scalar
from penstock.base.spreadsheets import escape_formula, is_formula

UNKNOWN = "Unknown"

_NUMBER = Pattern(r"-?(\p{Nd}+\.?\p{Nd}*|\.\p{Nd}+)([eE][+-]?\p{Nd}+)?")
_WORDS = ("true", "false", "unknown")
_LABEL = "row"
"""Name of the column that distinguishes the total from other rows."""


TableFormat = Literal["csv", "json", "parquet"]
"""Format of a file with a table."""

MEDIA_TYPES: Mapping[TableFormat, str] = {
    "csv": "text/csv",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}


class Column(NamedTuple):
    """A column of figures. type: dict for JSON, which CSV and Parquet store as text."""

    name: str
    type: type = int


Figures = Sequence[Any]
TableRow = tuple[Sequence[Scalar | None] | None, Figures]
"""Values of the properties (None for the total), and figures in the order of their columns."""


def write_rows(
    properties: Sequence[str],
    figures: Sequence[Column],
    blocks: Iterable[Sequence[TableRow]],
    table_format: TableFormat,
    file: IO[bytes],
    *,
    label: str,
) -> None:
    """Write blocks of rows to a file. label: value of the column `row`, except for the total."""
    with _WRITERS[table_format](properties, figures, file, label) as writer:
        for rows in blocks:
            writer.write(rows)


class _Writer(ABC):
    """Writes a table to a file, block by block. Leaving the context completes the table."""

    def __init__(
        self, properties: Sequence[str], figures: Sequence[Column], file: IO[bytes], label: str
    ) -> None:
        self.properties, self.figures, self.file, self._label = properties, figures, file, label
        self.begin()

    def label(self, values: Sequence[Scalar | None] | None) -> str:
        return "total" if values is None else self._label

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def write(self, rows: Sequence[TableRow]) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    def property_columns(self, *suffixes: str) -> list[str]:
        """Return the names of property columns, with a prefix if a name is already in use.

        suffixes: suffixes of additional columns for each property.
        """
        used, columns = {_LABEL, *(column.name for column in self.figures)}, []
        for name in self.properties:
            while used & {name, *(name + suffix for suffix in suffixes)}:
                name = f"cohort_{name}"
            columns.append(name)
            used |= {name, *(name + suffix for suffix in suffixes)}
        return columns


class _JsonWriter(_Writer):
    """Writes a list of objects with figures and `cohort`, the typed values (null for the total)."""

    def begin(self) -> None:
        self._separator = b"[\n"

    def write(self, rows: Sequence[TableRow]) -> None:
        for values, figures in rows:
            cohort = None if values is None else dict(zip(self.properties, values, strict=True))
            named = {
                column.name: figure for column, figure in zip(self.figures, figures, strict=True)
            }
            row = {_LABEL: self.label(values), "cohort": cohort, **named}
            self.file.write(self._separator + json.encode(row))
            self._separator = b",\n"

    def end(self) -> None:
        self.file.write(b"\n]\n")


class _ArrowWriter(_Writer):
    """The base of the CSV and Parquet writers: a schema and batches of columns."""

    def schema(self) -> Any:
        import pyarrow as pa

        types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        return pa.schema(
            [
                *((name, pa.string()) for name in (_LABEL, *self.text_columns())),
                *((column.name, types.get(column.type, pa.string())) for column in self.figures),
            ]
        )

    @abstractmethod
    def text_columns(self) -> list[str]: ...

    @abstractmethod
    def texts(self, values: Sequence[Scalar | None] | None) -> list[str | None]: ...

    @abstractmethod
    def text(self, figure: str) -> str: ...

    def _cells(self, values: Sequence[Scalar | None] | None, figures: Figures) -> Iterator[Any]:
        yield self.label(values)
        yield from self.texts(values)
        for column, figure in zip(self.figures, figures, strict=True):
            if figure is None:
                yield None
            elif column.type is dict:
                yield json.encode(figure).decode()
            else:
                yield self.text(figure) if column.type is str else figure

    def batch(self, rows: Sequence[TableRow]) -> Any:
        import pyarrow as pa

        schema = self.schema()
        table = [list(self._cells(values, figures)) for values, figures in rows]
        columns = zip(*table, strict=True)
        return pa.record_batch(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


class _CsvWriter(_ArrowWriter):
    """Writes CSV, spelling values so that a reader can tell their types apart.

    Missing values are `Unknown`, and the cells of the total are empty. Numbers and booleans are
    bare. Text that looks like one of these is a quoted JSON string. Text that a spreadsheet would
    run as a formula starts with an apostrophe.
    """

    def begin(self) -> None:
        from pyarrow import csv

        self._csv = csv.CSVWriter(self.file, self.schema())

    def text_columns(self) -> list[str]:
        return [escape_formula(name) for name in self.property_columns()]

    def texts(self, values: Sequence[Scalar | None] | None) -> list[str | None]:
        if values is None:
            return [None] * len(self.properties)
        return [
            UNKNOWN
            if value is None
            else _quote_if_ambiguous(value)
            if isinstance(value, str)
            else _plain(value)
            for value in values
        ]

    def text(self, figure: str) -> str:
        return escape_formula(figure)

    def write(self, rows: Sequence[TableRow]) -> None:
        self._csv.write_batch(self.batch(rows))

    def end(self) -> None:
        self._csv.close()


class _ParquetWriter(_ArrowWriter):
    """Writes two columns for each property: its text, and its JSON type in `<name>_type`.

    The type is `missing` for a missing value, and `total` in the row of the total.
    """

    def begin(self) -> None:
        from pyarrow import parquet

        self._parquet = parquet.ParquetWriter(self.file, self.schema(), compression="zstd")

    def text_columns(self) -> list[str]:
        return [
            column for name in self.property_columns("_type") for column in (name, f"{name}_type")
        ]

    def texts(self, values: Sequence[Scalar | None] | None) -> list[str | None]:
        if values is None:
            return [None, "total"] * len(self.properties)
        return [
            cell
            for value in values
            for cell in (None if value is None else _plain(value), _type(value))
        ]

    def text(self, figure: str) -> str:
        return figure

    def write(self, rows: Sequence[TableRow]) -> None:
        self._parquet.write_batch(self.batch(rows))

    def end(self) -> None:
        self._parquet.close()


_WRITERS: Mapping[TableFormat, type[_Writer]] = {
    "csv": _CsvWriter,
    "json": _JsonWriter,
    "parquet": _ParquetWriter,
}


def _quote_if_ambiguous(text: str) -> str:
    """Quote a string if its CSV cell would look like another value."""
    return json.encode(text).decode() if _looks_like_another_value(text) else escape_formula(text)


def _looks_like_another_value(text: str) -> bool:
    """Whether a CSV reader would mistake a string for another value.

    It may look like an empty cell, a number, a boolean, a missing value, a quoted string, or a
    formula with an apostrophe.
    """
    trimmed = text.strip()
    return (
        not trimmed
        or text.lower() in _WORDS
        or text.startswith('"')
        or (text.startswith("'") and is_formula(text[1:]))
        or _NUMBER.fullmatch(trimmed) is not None
    )


def _plain(value: Scalar) -> str:
    return value if isinstance(value, str) else json.encode(value).decode()


def _type(value: Scalar | None) -> str:
    if value is None:
        return "missing"
    return (
        "string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"
    )
