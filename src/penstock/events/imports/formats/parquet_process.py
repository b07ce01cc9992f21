"""Reads a Parquet file in a separate process: python -m ...parquet_process PATH MAX_ROW_BYTES.

A file of a few kilobytes can need any amount of memory and time, and a library in C++ may crash on
a damaged file. The memory and the processor time of the process are limited, other work has
priority over it, and nothing else depends on it. The process ends once nobody reads its output.

It writes a line of JSON with the columns and the number of rows, then a line for each row: an array
with a value for each column and a list of the columns whose bytes are not UTF-8, `null` for a row
that is too large, or `false` for a row with too many values. The last line is an object with
`error` if reading cannot continue. Times become text in ISO 8601, with an offset if the file states
one, and so do other values that JSON does not have.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve memory in advance

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import json

from penstock.base.event_limits import MAX_EVENT_VALUES

MAX_MEMORY_BYTES = 1024**3
"""Limit of memory that the process may allocate, in bytes."""
MAX_COLUMNS = 1_000
_MIN_CPU_S, _BYTES_PER_CPU_S = 20, 50_000
"""Limit of processor time, in seconds: a part for every file, and a part by the size of the file.
Files of real events need about a tenth of it.
"""
_HARD_LIMIT_S = 10
"""Time after the limit at which the system ends the process, in seconds of processor time."""
_NICENESS = 10
_BATCH_ROWS = 256
_BUFFER_BYTES = 1024 * 1024
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the column says whether its times have an offset
_NO_MEMORY = (
    "The file needs more than 1 GB of memory to read. Write it with smaller row groups and pages."
)
_NO_TIME = (
    "The file needs too much processor time for its size, for example because its rows contain "
    "long lists. Leave out columns that are not imported."
)
_DAMAGED = "The file is damaged or not a valid Parquet file."


class _OutOfTime(BaseException):
    """The process has used its processor time."""


class _NotText:
    """Bytes that are not UTF-8."""


NOT_UTF8 = _NotText()


Convert = Callable[[Any], Any]


def main(path: str, max_row_bytes: int, out: IO[bytes]) -> None:
    """Write the rows of a file, as the module describes."""
    _limit_resources(Path(path).stat().st_size)
    pa.set_cpu_count(1)
    try:
        for line in _lines(path, max_row_bytes):
            out.write(line + b"\n")
        out.flush()
    except BrokenPipeError:
        os._exit(0)
    except (MemoryError, pa.ArrowMemoryError):
        _end(out, _NO_MEMORY)
    except _OutOfTime:
        _end(out, _NO_TIME)
    except Exception:
        _end(out, _DAMAGED)


def _limit_resources(file_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    cpu_s = _MIN_CPU_S + file_bytes // _BYTES_PER_CPU_S
    signal.signal(signal.SIGXCPU, _on_out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + _HARD_LIMIT_S))
    os.nice(_NICENESS)


def _on_out_of_time(*_: object) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # It is sent every second.
    raise _OutOfTime


def _end(out: IO[bytes], error: str) -> None:
    out.write(json.encode({"error": error}) + b"\n")
    out.flush()
    os._exit(0)


def _lines(path: str, max_row_bytes: int) -> Iterator[bytes]:
    with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
        schema = file.schema_arrow
        if len(schema.names) > MAX_COLUMNS:
            message = f"The file has more than {MAX_COLUMNS:,} columns."
            yield json.encode({"error": message})
            return
        head = json.encode({"columns": schema.names, "rows": file.metadata.num_rows})
        if len(head) > max_row_bytes:
            yield json.encode({"error": "The names of the columns are too long."})
            return
        yield head
        converters = [_converter(field.type) for field in schema]
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            for row in _rows(batch, converters):
                yield b"false" if row is None else _line(row, max_row_bytes)


def _line(row: Sequence[Any], max_row_bytes: int) -> bytes:
    not_utf8 = [index for index, value in enumerate(row) if value is NOT_UTF8]
    line = json.encode([*row, not_utf8], enc_hook=_as_text)
    return line if len(line) <= max_row_bytes else b"null"


def _rows(batch: pa.RecordBatch, converters: Sequence[Convert]) -> Iterator[Sequence[Any] | None]:
    """Yield the values of each row; None for a row with too many values, which is not converted.

    Values are counted before they become objects, because a map with thousands of equal keys takes
    long to convert and leaves almost nothing.
    """
    if sum(map(_count, batch.columns)) <= MAX_EVENT_VALUES:
        columns = [
            list(map(convert, _values(column)))
            for convert, column in zip(converters, batch.columns, strict=True)
        ]
        yield from zip(*columns, strict=True)
    elif batch.num_rows == 1:
        yield None
    else:
        middle = batch.num_rows // 2
        yield from _rows(batch.slice(0, middle), converters)
        yield from _rows(batch.slice(middle), converters)


def _count(column: pa.Array) -> int:
    """Return the number of values in a column, nested ones included."""
    return len(column) + sum(map(_count, _parts(column)))


def _parts(column: pa.Array) -> Sequence[pa.Array]:
    """Return the columns inside the values of a column."""
    kind = column.type
    if pa.types.is_struct(kind):
        return list(column.flatten())
    if pa.types.is_map(kind):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return [part.slice(start, end - start) for part in (column.keys, column.items)]
    if pa.types.is_nested(kind):
        return [column.flatten()]
    return []


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column; times as microseconds since 1970."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except TypeError:  # A map has keys, such as lists, that an object cannot have.
        values = column.to_pylist()
    return values


def _converter(kind: pa.DataType) -> Convert:
    if pa.types.is_timestamp(kind):
        return _utc if kind.tz else _local
    if pa.types.is_decimal(kind):
        return _number
    return _plain


def _plain(value: Any) -> Any:
    """Return text for bytes, even inside lists and objects; NOT_UTF8 if they are not UTF-8."""
    try:
        return _decoded(value)
    except UnicodeDecodeError:
        return NOT_UTF8


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return list(map(_decoded, value))
    if isinstance(value, dict):
        return {str(_decoded(name)): _decoded(part) for name, part in value.items()}
    return value


def _number(value: Decimal | None) -> int | float | None:
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def _utc(value: int | None) -> str | None:
    return None if value is None else _time(value, "Z")


def _local(value: int | None) -> str | None:
    return None if value is None else _time(value, "")


def _time(microseconds: int, offset: str) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat() + offset
    except OverflowError:
        return f"{microseconds} microseconds"  # not a time that an import accepts


def _as_text(value: Any) -> Any:
    """Return the text of a value that JSON does not have."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return str(value)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.stdout.buffer)
