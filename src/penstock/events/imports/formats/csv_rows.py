"""CSV whose header row names the fields of an event.

Columns are named after the fields of an NDJSON line, such as `timestamp`, `name` and `userId`. A
column `properties.plan` contains the property `plan` as text; a column `properties` may contain a
JSON object, for numbers and other types. Empty cells are ignored. Without a column `type`, each row
is of type `event`. The separator (comma, semicolon, tab or pipe) is detected from the header,
unless a line such as `sep=;` before it states one.

Python's `csv` module finds the end of a row, which may be many lines later: a quoted cell may
contain line breaks. A row with invalid quoting is therefore rejected from its first line to the
line where the module noticed the error. A row that is still open after 131,072 bytes ends the
import, because the text of a cell must never be read as rows.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from penstock.base.csv_separators import separator_of, stated_separator
from penstock.base.errors import Fault, Malformed
from penstock.events.imports.formats.exports import MAX_EXPORT_LINE_BYTES
from penstock.events.imports.formats.mapping import (
    HOW_TO_MAP,
    ReadCells,
    ReadNames,
    mapped_rows,
    read_cells_by,
    sample_table,
)
from penstock.events.imports.formats.reader import (
    HEAD_BYTES,
    TOO_MANY_VALUES,
    Guide,
    Reader,
    ReaderLimits,
    Row,
    Sample,
    UnreadableFile,
    has_too_many_values,
    row_of_events,
    too_long,
)
from penstock.events.imports.formats.schema import ImportLine, ImportMapping
from penstock.events.imports.formats.text_lines import MAX_LINE_BYTES, text_lines
from penstock.events.imports.formats.times import FileTimes
from penstock.http.bodies import parse_json

_PROPERTIES = "properties"
_FIELDS = {"event", *(field.alias for field in ImportLine.model_fields.values())}
"""Names of columns. `event` is an alias of `name`."""
_MAX_COLUMNS = 1_000
_MAX_EMPTY_LINES = 1_000_000
"""Maximum number of consecutive empty lines. Each line is a separate step, which takes time."""
_MAX_STEPS_IN_ROW = 1_000
"""Maximum number of steps inside a row that yield no line. Each step may read a thousand gzip
pieces.
"""
_EXPECTED = (
    "Send CSV whose first row names the fields of an event, such as "
    f"timestamp,name,userId,properties.plan. {HOW_TO_MAP}"
)
_EXPECTED_TABLE = "Send CSV whose first row names the columns of the mapping."
_SUM_COLUMNS, _OTHER_SUM_COLUMNS = {"date", "visitors"}, {"visits", "pageviews", "bounces"}
_ONLY_SUMS = (
    "The file has sums for each day (columns such as date, visitors and pageviews), like an export "
    "of Plausible. A funnel cannot be made of sums, because they do not say who did what and when. "
    "Send a file with a row for each event."
)
_MAX_SAMPLE_S = 1.0
"""Time limit for finding the first rows of a file, in seconds."""
_NOT_CSV = Fault(
    "",
    "not_csv",
    "The row is not valid CSV: a quote inside a cell must be doubled, and a cell that begins with "
    "a quote or contains a line break must be in quotes.",
)
NOT_UTF8 = Fault("", "not_utf8", "The row is not valid UTF-8.")
_TOO_MANY_CELLS = Fault("", "too_many_cells", "The row has more cells than the header.")
_NOT_AN_OBJECT = Fault(_PROPERTIES, "wrong_type", "Must be a JSON object, such as {...}.")


Columns = tuple[tuple[str, str | None], ...]
"""For each column, the field, and the key if the field is a property."""


class _Header(NamedTuple):
    """A header row. line: its line. width: number of columns."""

    line: bytes
    separator: str
    width: int
    read_cells: ReadCells


def read_field_names(names: list[str]) -> ReadCells:
    """Return how to read rows whose columns are the fields of an event.

    Raises `UnreadableFile` if a column is something else, or a needed one is missing.
    """
    return cells_of_fields(_columns(names), {"type": "event"})


def are_field_names(names: Sequence[str]) -> bool:
    """Whether columns are the fields of an event, so that a file needs no mapping."""
    try:
        read_field_names(list(names))
    except UnreadableFile:
        return False
    return True


def csv_rows(path: Path, limits: ReaderLimits, read_names: ReadNames) -> Iterator[Row]:
    """Yield every row after the header as a JSON object.

    Raises `UnreadableFile` if reading cannot continue.
    """
    line_limits = limits._replace(max_row_bytes=MAX_LINE_BYTES)
    lines = text_lines(path, line_limits, keep_empty=True)
    header, empty_lines, separator = None, 0, None
    for line in lines:
        if not line.content:
            yield line
            continue
        if not line.content.strip():
            empty_lines += 1
            if empty_lines == _MAX_EMPTY_LINES:
                raise UnreadableFile(f"The file has {_MAX_EMPTY_LINES:,} empty lines in a row.")
            yield line._replace(content=b"", empty_lines=1)
            continue
        empty_lines = 0
        if header is None:
            if separator is None and (stated := stated_separator(_decoded(line.content))):
                separator = stated
            else:
                header = _read_header(line.content, read_names, separator)
            yield line._replace(content=b"")
        elif line.content.strip() == header.line:  # The next file of an archive begins.
            yield line._replace(content=b"")
        else:
            yield _read_row(line, lines, header, limits.max_row_bytes)


def _read_header(line: bytes, read_names: ReadNames, separator: str | None) -> _Header:
    """Read the header. Raises `UnreadableFile` if the line is not a header.

    separator: the separator that the file states, if any.
    """
    text = line.decode("utf-8", "replace").strip("\r\n")
    separator = separator or separator_of(text)
    try:
        [cells] = csv.reader([text], delimiter=separator, strict=True)
    except (csv.Error, ValueError):
        raise UnreadableFile("The first row is not valid CSV.") from None
    names = [cell.strip() for cell in cells]
    while names and not names[-1]:  # Spreadsheets may write empty columns at the end.
        names.pop()
    if len(names) > _MAX_COLUMNS:
        raise UnreadableFile(f"The first row names more than {_MAX_COLUMNS:,} columns.")
    if len(set(names)) < len(names):
        raise UnreadableFile("The first row names a column twice.")
    if len(names) == 1:
        raise UnreadableFile(
            f"The first row has a single cell, {names[0][:100]!r}. It must name the columns, with "
            "commas, semicolons, tabs or pipes between them. Remove a title above it."
        )
    if _SUM_COLUMNS.issubset(names) and not _OTHER_SUM_COLUMNS.isdisjoint(names):
        raise UnreadableFile(_ONLY_SUMS)
    return _Header(line.strip(), separator, len(names), read_names(names))


def _columns(names: list[str]) -> Columns:
    columns = tuple(map(_column_of, names))
    if "timestamp" not in names:
        raise UnreadableFile(f"The first row does not name the column timestamp. {_EXPECTED}")
    if not {"visitorId", "userId"} & set(names):
        raise UnreadableFile(f"The first row names neither visitorId nor userId. {_EXPECTED}")
    return columns


def _column_of(name: str) -> tuple[str, str | None]:
    field, _, key = name.partition(".")
    if field == _PROPERTIES and key:
        return field, key
    if name not in _FIELDS:
        raise UnreadableFile(
            f"The first row names the column {name[:100]!r}, which is not a field of an event. "
            f"To import it as a property, name it {_PROPERTIES}.{name[:100] or 'key'}. "
            f"{HOW_TO_MAP}"
        )
    return name, None


def _read_row(
    first: Row,
    lines: Iterator[Row],
    header: _Header,
    max_bytes: int,
) -> Row:
    """Read the row that starts with the given line. Reads further lines while a quote is open."""
    taken, size = [first], len(first.content)

    def texts() -> Iterator[str]:
        nonlocal size
        yield _decoded(first.content)
        steps = 0
        for line in lines:
            if not line.content:
                steps += 1
                if steps == _MAX_STEPS_IN_ROW:
                    raise _endless(first)
                continue
            size += len(line.content)
            if size > MAX_LINE_BYTES:
                raise _endless(first)
            taken.append(line)
            yield _decoded(line.content)

    try:
        cells = next(csv.reader(texts(), delimiter=header.separator, strict=True))
    except csv.Error:
        if size > csv.field_size_limit():
            raise _endless(first) from None
        text = b"".join(line.content for line in taken)
        return _row(taken, text, _NOT_CSV)
    if size > max_bytes:
        return _row(taken, b"", too_long(max_bytes))
    item, faults = header.read_cells(cells)
    if any(cells[header.width :]):
        faults = [_TOO_MANY_CELLS]
    try:
        return row_of_events(_row(taken, b"", *faults), item)
    except UnicodeEncodeError:
        return _row(taken, b"", NOT_UTF8)


def cells_of_fields(columns: Columns, defaults: Mapping[str, Any]) -> ReadCells:
    """Return the function that reads rows whose columns are fields and properties.

    defaults: fields of each row, unless a cell contains them.
    """
    return partial(_item, columns, defaults)


def _item(
    columns: Columns, defaults: Mapping[str, Any], cells: Sequence[Any]
) -> tuple[dict[str, Any], list[Fault]]:
    faults = []
    item = dict(defaults)
    properties: dict[str, Any] = {}
    for (field, key), cell in zip(columns, cells, strict=False):
        if cell is None or cell == "":
            continue
        if key is not None:
            properties[key] = cell
        elif field == _PROPERTIES:
            value = _object_of(cell)
            if isinstance(value, Fault):
                faults = [value]
            else:
                properties = value | properties
        else:
            item[field] = cell
    if properties:
        item[_PROPERTIES] = properties
    return item, faults


def _object_of(cell: Any) -> dict[str, Any] | Fault:
    """Return the JSON object in a cell, or what is wrong with the cell."""
    if isinstance(cell, str):
        text = cell.encode("utf-8", "replace")
        if has_too_many_values(text):
            return TOO_MANY_VALUES
        try:
            cell = parse_json(text)
        except Malformed:
            return _NOT_AN_OBJECT
    return cell if isinstance(cell, dict) else _NOT_AN_OBJECT


def _row(taken: list[Row], content: bytes, *faults: Fault) -> Row:
    last = taken[-1]
    return Row(taken[0].line, last.lines_read, last.bytes_read, content, faults=faults)


def _decoded(line: bytes) -> str:
    """Decode a line. Invalid UTF-8 becomes lone surrogates, which JSON rejects."""
    return line.decode("utf-8", "surrogateescape")


def _endless(first: Row) -> UnreadableFile:
    return UnreadableFile(
        f"The row that begins in line {first.line:,} is too long; perhaps a quote is not closed."
    )


def csv_problem(head: bytes, read_names: ReadNames, expected: str) -> str | None:
    """Return why a file that begins with these bytes is not CSV with such a header.

    expected: a sentence that says what to send.
    """
    line, newline, rest = head.lstrip(b"\r\n").partition(b"\n")
    if separator := stated_separator(_decoded(line)):
        line, newline, rest = rest.lstrip(b"\r\n").partition(b"\n")
    if not line.strip() or not (newline or len(head) < HEAD_BYTES):
        return None  # The problem with the header is reported when the file is read.
    if line.startswith((b"{", b"[")):
        return f"The file is JSON. {expected}"
    problem = _header_problem(line, read_names, separator)
    second = rest.lstrip(b"\r\n").partition(b"\n")[0]
    if problem and second and _header_problem(second, read_field_names, separator) is None:
        return "The first row is a title, and the second row names the columns. Remove the title."
    return problem


def _header_problem(line: bytes, read_names: ReadNames, separator: str | None) -> str | None:
    try:
        _read_header(line, read_names, separator)
    except UnreadableFile as problem:
        return str(problem)
    return None


def _mapped(mapping: ImportMapping) -> Reader:
    """Return the reader of CSV with this mapping."""
    read_names = partial(read_cells_by, mapping, FileTimes(UTC))

    def rows(path: Path, limits: ReaderLimits) -> Iterator[Row]:
        limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
        return mapped_rows(mapping, limits, partial(csv_rows, path, limits))

    return replace(
        CSV,
        head_problem=lambda head: csv_problem(head, read_names, _EXPECTED_TABLE),
        read_rows=rows,
    )


def _sample(path: Path, limits: ReaderLimits) -> Sample:
    """Read the first rows. Raises `UnreadableFile` if the file does not begin like a CSV file."""
    limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
    columns, rows, *_ = sample_table(partial(csv_rows, path, limits), _MAX_SAMPLE_S)
    if not columns:
        raise UnreadableFile("The file does not begin with a row that names the columns.")
    texts = [[_valid_text(cell) for cell in row] for row in rows]
    return Sample(columns, texts, is_mapped=are_field_names(columns))


def _valid_text(cell: str) -> str:
    """Replace each byte that is not UTF-8, which a cell contains as a lone surrogate, by `?`."""
    return cell.encode("utf-8", "replace").decode()


CSV = Reader(
    name="csv",
    description="CSV: a header row that names the fields of an event, or any table with a mapping",
    media_types=("text/csv",),
    endings=(".csv", ".tsv"),
    guide=Guide(
        "The first row names the columns. You choose what they mean after the upload, unless they "
        "are the fields of an event.",
        "Fields of a row",
        "/api/docs#post-api-imports",
    ),
    head_problem=lambda head: csv_problem(head, read_field_names, _EXPECTED),
    read_rows=lambda path, limits: csv_rows(path, limits, read_field_names),
    sample=_sample,
    mapped=_mapped,
)
