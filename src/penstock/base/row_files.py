"""Writes rows to Parquet or NDJSON files, block by block."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from shutil import copyfileobj
from typing import IO, Any

from msgspec import json

from penstock.base.clock import iso_or_none
from penstock.base.temporary_files import temporary_file

Row = Mapping[str, Any]


class RowFormat(StrEnum):
    """Format of a file of rows."""

    PARQUET = "parquet"
    NDJSON = "ndjson"


MEDIA_TYPES: Mapping[RowFormat, str] = {
    RowFormat.PARQUET: "application/vnd.apache.parquet",
    RowFormat.NDJSON: "application/x-ndjson",
}


class Cell(StrEnum):
    """Type of a column. TIME: milliseconds since 1970, written as a time. JSON: any JSON value,
    which Parquet stores as text.
    """

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    JSON = "json"


Columns = Mapping[str, Cell]


def write_rows(
    columns: Columns, blocks: Iterable[Sequence[Row]], row_format: RowFormat, file: IO[bytes]
) -> None:
    """Write blocks of rows to a file. Rows contain every column; absent values are None."""
    if row_format is RowFormat.NDJSON:
        for rows in blocks:
            file.write(b"".join(json.encode(_plain(columns, row)) + b"\n" for row in rows))
        return
    import pyarrow as pa
    from pyarrow import parquet

    types = {
        Cell.TEXT: pa.string(),
        Cell.NUMBER: pa.int64(),
        Cell.TIME: pa.timestamp("ms", "UTC"),
        Cell.JSON: pa.string(),
    }
    schema = pa.schema([(name, types[cell]) for name, cell in columns.items()])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for rows in blocks:
            arrays = [
                pa.array(_values(name, cell, rows), schema.field(name).type)
                for name, cell in columns.items()
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def join_files(files: Iterable[IO[bytes]], number: int, row_format: RowFormat) -> IO[bytes]:
    """Join files with the same columns, and close them. Returns a temporary file, rewound.

    number: number of files, at least 1. A single file is returned unchanged.
    """
    remaining = iter(files)
    first = next(remaining)
    if number == 1:
        return first
    with temporary_file() as joined:
        if row_format is RowFormat.NDJSON:
            for file in chain([first], remaining):
                with file:
                    copyfileobj(file, joined)
        else:
            _join_parquet(chain([first], remaining), joined)
    return joined


def _join_parquet(files: Iterable[IO[bytes]], joined: IO[bytes]) -> None:
    from pyarrow import parquet

    writer = None
    try:
        for file in files:
            with file, parquet.ParquetFile(file) as part:
                writer = writer or parquet.ParquetWriter(
                    joined, part.schema_arrow, compression="zstd"
                )
                for batch in part.iter_batches():
                    writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def _plain(columns: Columns, row: Row) -> Row:
    return {
        name: iso_or_none(row[name]) if cell is Cell.TIME else row[name]
        for name, cell in columns.items()
    }


def _values(name: str, cell: Cell, rows: Sequence[Row]) -> list[Any]:
    if cell is Cell.JSON:
        return [None if row[name] is None else json.encode(row[name]).decode() for row in rows]
    return [row[name] for row in rows]
