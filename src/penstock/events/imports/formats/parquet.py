"""Parquet: any table with a mapping, or with columns that are the fields of an event.

A separate process, `parquet_process`, reads the file, because its memory can be limited. The number
of a row stands for the number of its line.
"""

import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from select import select
from threading import BoundedSemaphore
from time import sleep
from typing import IO, Any

from msgspec import json

from penstock.events.imports.formats.csv_rows import NOT_UTF8, are_field_names, read_field_names
from penstock.events.imports.formats.exports import MAX_EXPORT_LINE_BYTES
from penstock.events.imports.formats.mapping import (
    ReadCells,
    ReadNames,
    mapped_rows,
    sample_table,
)
from penstock.events.imports.formats.objects import read_parts_by
from penstock.events.imports.formats.reader import (
    TOO_MANY_VALUES,
    Guide,
    Reader,
    ReaderLimits,
    Row,
    Sample,
    UnreadableFile,
    row_of_events,
    too_long,
)
from penstock.events.imports.formats.schema import ImportMapping

MAGIC = b"PAR1"
MEDIA_TYPE = "application/vnd.apache.parquet"
_PROCESS = f"{__package__}.parquet_process"
"""Name of a module that this process does not import, because it loads PyArrow."""
_MAX_IMPORTS = 8
"""Maximum number of imports that read at once, in addition to dry runs, which are few. Each process
may use a gigabyte of memory.
"""
_free_imports = BoundedSemaphore(_MAX_IMPORTS)
_STEP_S = 0.1
"""Time that a step waits for the process, in seconds."""
_MAX_SILENT_S = 120.0
"""Time after which a process that writes nothing is ended, in seconds."""
_MAX_SAMPLE_S = 5.0
"""Time limit for finding the first rows of a file, in seconds."""
_PIPE_BYTES = 256 * 1024
_MAX_ROWS = 100_000_000
_ENVIRONMENT = ("PATH", "PYTHONPATH", "TMPDIR", "LANG")
"""Variables that the process gets. The others may be secrets."""
_TAIL_BYTES, _MAX_SCHEMA_BYTES = 8, 256 * 1024
"""Size of the end of a file, which states the size of the part before it, and how much of that part
is searched for names of columns.
"""
_MIN_BYTES = len(MAGIC) + _TAIL_BYTES
_NAME = b"\x18"
"""The byte before the length and the text of a column's name."""
_DAMAGED = "The file cannot be read: the process that read it ended. It may be damaged."


_NOT_TEXT = "\ud800"
"""Stands for bytes that are not UTF-8. It cannot be encoded, so it rejects a row that uses it."""


def is_parquet(path: Path) -> bool:
    """Whether a file begins like a Parquet file."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def names_columns(path: Path, names: Collection[str]) -> bool:
    """Whether a file is Parquet with columns of these names.

    Looks for the names at the start of the file's last part, without reading anything else. names:
    shorter than 128 bytes.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC or file.seek(0, os.SEEK_END) < _MIN_BYTES:
            return False
        end = file.seek(-_TAIL_BYTES, os.SEEK_END)
        schema_bytes = int.from_bytes(file.read(4), "little")
        if file.read() != MAGIC or schema_bytes > end:
            return False
        file.seek(end - schema_bytes)
        schema = file.read(min(schema_bytes, _MAX_SCHEMA_BYTES))
    return all(_NAME + bytes([len(name)]) + name.encode() in schema for name in names)


def parquet_rows(path: Path, limits: ReaderLimits, read_names: ReadNames) -> Iterator[Row]:
    """Yield every row as a JSON object. Raises `UnreadableFile` if reading cannot continue."""
    if not is_parquet(path):
        raise UnreadableFile(_expected("The file does not begin like Parquet."))
    max_bytes, size = min(limits.max_row_bytes, MAX_EXPORT_LINE_BYTES), path.stat().st_size
    limits = limits._replace(max_row_bytes=max_bytes)
    with ExitStack() as stack:
        if not limits.is_dry_run:
            while not _free_imports.acquire(blocking=False):
                sleep(_STEP_S)
                yield Row(0, 0, 0)
            stack.callback(_free_imports.release)
        output = stack.enter_context(_reading(path, max_bytes))
        yield from _rows_of(output, size, limits, read_names)


@contextmanager
def _reading(path: Path, max_row_bytes: int) -> Iterator[IO[bytes]]:
    """Run the process that reads a file, and return its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", _PROCESS, str(path.absolute()), str(max_row_bytes)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )
    try:
        if process.stdout is None:
            raise AssertionError
        with process.stdout as output:
            yield output
    finally:
        process.kill()
        process.wait()


def _rows_of(
    output: IO[bytes], size: int, limits: ReaderLimits, read_names: ReadNames
) -> Iterator[Row]:
    """Yield the rows in the output of the process. size: size of the file in bytes."""
    read_cells: ReadCells | None = None
    total = number = inflated = 0
    for line in _lines(output, limits.max_row_bytes):
        bytes_read = min(size, size * number // total) if total else 0
        if line is None:
            yield Row(number, number, bytes_read)
            continue
        inflated += len(line)
        if inflated > limits.max_inflated_bytes:
            raise UnreadableFile(
                f"The rows have more than {limits.max_inflated_bytes:,} bytes; split the file."
            )
        message = json.decode(line)
        if isinstance(message, dict):
            if "error" in message:
                raise UnreadableFile(message["error"])
            total = message["rows"]
            if total > _MAX_ROWS:
                raise UnreadableFile(f"The file has more than {_MAX_ROWS:,} rows; split it.")
            read_cells = _reader_of(message["columns"], read_names)
            continue
        number += 1
        if read_cells is None or number > total:
            raise UnreadableFile(_DAMAGED)
        yield _row(number, bytes_read, message, read_cells, limits.max_row_bytes)
    if read_cells is None or number < total:
        raise UnreadableFile(_DAMAGED)


def _reader_of(names: list[str], read_names: ReadNames) -> ReadCells:
    if len(set(names)) < len(names):
        raise UnreadableFile("Two columns of the file have the same name.")
    return read_names(names)


def _row(number: int, bytes_read: int, cells: Any, read_cells: ReadCells, max_bytes: int) -> Row:
    if not isinstance(cells, list):
        fault = too_long(max_bytes) if cells is None else TOO_MANY_VALUES
        return Row(number, number, bytes_read, faults=[fault])
    *values, not_utf8 = cells
    for index in not_utf8:
        values[index] = _NOT_TEXT
    item, faults = read_cells(values)
    try:
        return row_of_events(Row(number, number, bytes_read, faults=faults), item)
    except UnicodeEncodeError:
        return Row(number, number, bytes_read, faults=[NOT_UTF8])


def _lines(output: IO[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines of the process; None whenever it has written nothing for some time.

    max_bytes: maximum number of bytes of a line. Raises `UnreadableFile` for a longer line.
    """
    rest, waits = b"", 0
    while True:
        ready, _, _ = select([output], [], [], _STEP_S)
        if not ready:
            waits += 1
            if waits * _STEP_S > _MAX_SILENT_S:
                raise UnreadableFile("Reading the next rows of the file takes too long.")
            yield None
            continue
        piece = output.read(_PIPE_BYTES)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > max_bytes:
            raise UnreadableFile(_DAMAGED)
        yield from lines
        waits = 0


def _mapped(mapping: ImportMapping) -> Reader:
    """Return the reader of Parquet with this mapping."""
    return replace(
        PARQUET,
        read_rows=lambda path, limits: mapped_rows(
            mapping, limits, partial(parquet_rows, path, limits), read_parts_by
        ),
    )


def _sample(path: Path, limits: ReaderLimits) -> Sample:
    """Read the first rows. Raises `UnreadableFile` if the file is not Parquet."""
    sample = sample_table(partial(parquet_rows, path, limits), _MAX_SAMPLE_S)
    if not sample.columns:
        raise UnreadableFile("The columns of the file cannot be read in time.")
    return sample._replace(is_mapped=are_field_names(sample.columns))


def _expected(problem: str) -> str:
    return f"{problem} Send the Parquet file as it is; it is compressed already."


def head_problem(head: bytes) -> str | None:
    """Return why a file that begins with these bytes is not Parquet."""
    if len(head) < len(MAGIC) or head.startswith(MAGIC):
        return None
    return _expected("The file does not begin like Parquet.")


PARQUET = Reader(
    name="parquet",
    description="Parquet: a table with columns that are fields of an event, or any with a mapping",
    media_types=(MEDIA_TYPE,),
    endings=(".parquet",),
    guide=Guide(
        "Any table. You choose what its columns mean after the upload, unless they are the fields "
        "of an event.",
        "Fields of a row",
        "/api/docs#post-api-imports",
    ),
    head_problem=head_problem,
    read_rows=lambda path, limits: parquet_rows(path, limits, read_field_names),
    sample=_sample,
    mapped=_mapped,
)
