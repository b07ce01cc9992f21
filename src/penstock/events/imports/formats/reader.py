"""Types for the formats of import files and their rows."""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from msgspec import json

from penstock.base.errors import Fault
from penstock.base.value_budget import LINE
from penstock.events.imports.formats.schema import ImportMapping

HEAD_BYTES = 64 * 1024
"""Minimum number of bytes from the start of a file that `head_problem` gets, unless the file is
shorter. The first line must be complete, or its format is not recognised.
"""

SAMPLE_ROWS = 20
"""Maximum number of rows in a sample, from which a mapping is guessed."""

TOO_MANY_VALUES = LINE.fault()


class UnreadableFile(Exception):
    """The file cannot be read any further, so the import ends. The message is shown to people."""


class ReaderLimits(NamedTuple):
    """How to read a file. Limits are in bytes.

    max_row_bytes: maximum size of a row; a larger row is rejected, and reading continues.
    max_inflated_bytes: maximum size of the whole file after decompression. is_dry_run: whether the
    file is read before its import, which never waits for an import. timezone: time zone of times
    without an offset, for formats that have `has_local_times`.
    """

    max_row_bytes: int
    max_inflated_bytes: int
    is_dry_run: bool = False
    timezone: str = "UTC"


class Sample(NamedTuple):
    """The first rows of a table. rows: a value for each column; empty text or None for an empty
    cell. A row may be shorter than `columns`. has_paths: whether the columns are paths into JSON
    objects. is_mapped: whether the columns are the fields of an event and need no mapping.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    has_paths: bool = False
    is_mapped: bool = False


class DateOrder(Enum):
    """The orders of day and month in which a date can be read: only that of the format, either, or
    only the swapped one.
    """

    AS_FORMAT, EITHER, SWAPPED = range(3)


class Row(NamedTuple):
    """One small step through a file: a row, some empty lines, or neither.

    line: number of the line where the row starts, from 1. lines_read: lines of the file read so
    far. bytes_read: approximate number of bytes read so far, of the file as sent. content: the
    event as the JSON text of an `ImportLine`; empty in a step without a row. A batch holds its rows
    until they are stored, and text needs much less memory than objects. empty_lines: lines skipped
    in this step. ignored_lines: lines in this step that contain nothing that Penstock stores, such
    as a Segment `group` call. faults: faults that the reader found, in addition to those in the
    content. warnings: codes of warnings about what the reader changed in the content.
    date_order: None unless a dry run compares the orders. is_list: whether the content is an array
    of the events of the row.
    """

    line: int
    lines_read: int
    bytes_read: int
    content: bytes = b""
    empty_lines: int = 0
    ignored_lines: int = 0
    faults: Sequence[Fault] = ()
    warnings: Collection[str] = ()
    date_order: DateOrder | None = None
    is_list: bool = False


class Guide(NamedTuple):
    """How to get a file of a format, for people. link: words of the link to `address`."""

    text: str
    link: str
    address: str


@dataclass(frozen=True)
class Reader:
    """A format and how to read it.

    name: value of the `format` parameter. description: text shown to people, without a full stop.
    media_types: media types in lower case; clients send the first. endings: endings of file names
    in lower case, without that of a compression. Formats may share media types and endings; without
    the format's name, they mean the first of these formats. guide: shown in the dashboard's form.

    head_problem: returns why a file that begins with the given bytes, decompressed, is not in this
    format, and what to do; None if it may be in this format. read_rows: yields every row of a file,
    in short steps whatever the file contains; raises `UnreadableFile`. The same file must yield the
    same rows each time, because an interrupted import is read again from the start.

    has_local_times: whether `ReaderLimits.timezone` applies. sample: reads the first rows of a
    table; raises `UnreadableFile`. mapped: returns the reader of
    tables with a mapping. Both are None for a format that is not a table.
    """

    name: str
    description: str
    media_types: tuple[str, ...]
    endings: tuple[str, ...]
    guide: Guide
    head_problem: Callable[[bytes], str | None]
    read_rows: Callable[[Path, ReaderLimits], Iterator[Row]]
    has_local_times: bool = False
    sample: Callable[[Path, ReaderLimits], Sample] | None = None
    mapped: Callable[[ImportMapping], "Reader"] | None = None

    def rows(self, path: Path, limits: ReaderLimits) -> Generator[Row]:
        """Yield every row of a file. A row with too many values is rejected without its content.

        Raises `UnreadableFile` if reading cannot continue.
        """
        return within_values(self.read_rows(path, limits))


def row_of_events(row: Row, events: Mapping[str, Any] | Sequence[Any]) -> Row:
    """Return a row with the JSON text of its event, or of a list of its events.

    Raises `UnicodeEncodeError` if a text is not UTF-8.
    """
    if isinstance(events, Mapping):
        return row._replace(content=json.encode(events))
    if not events:
        return row._replace(content=b"", ignored_lines=int(not row.faults))
    return row._replace(content=json.encode(events), is_list=True)


def too_long(max_bytes: int) -> Fault:
    return Fault("", "too_large", f"A line may have at most {max_bytes:,} bytes.")


def has_too_many_values(text: bytes) -> bool:
    """Whether the JSON text of a line must be rejected without decoding it."""
    return not LINE.has_room_for(text)


def within_time(rows: Iterator[Row], max_s: float) -> Iterator[Row]:
    """Yield the rows that are read in this time, in seconds."""
    until_s = monotonic() + max_s
    for row in rows:
        yield row
        if monotonic() > until_s:
            return


def within_values(rows: Iterator[Row]) -> Generator[Row]:
    """Reject rows whose JSON text has too many values. Their content is dropped."""
    for row in rows:
        if has_too_many_values(row.content):
            yield row._replace(content=b"", faults=[TOO_MANY_VALUES])
        else:
            yield row
