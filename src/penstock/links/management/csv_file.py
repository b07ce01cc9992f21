"""Reads and writes links as CSV, one link per row, with field names in the header.

A file from `write_csv` can be read back without changes, even after a spreadsheet has saved it.
"""

import csv
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple

from penstock.base.csv_separators import separator_of, stated_separator
from penstock.base.errors import Fault, Invalid
from penstock.base.spreadsheets import decode_cell, encode_cell
from penstock.links.management.schema import LinkRecord

_BOMS_UTF16 = (BOM_UTF16_LE, BOM_UTF16_BE)
MAX_ROWS = 5_000
MAX_BYTES = 2 * 1024 * 1024

COLUMNS = (
    "id", "websiteId", "slug", "name", "destinationPath", "fallbackUrl", "utmSource", "utmMedium",
    "utmCampaign", "expiresAt", "expiredUrl", "tags", "passQuery", "isActive", "isArchived",
    "hostedUrl",
)  # fmt: skip
_IGNORED = {"hostedUrl"}  # computed fields are ignored
_SWITCHES = {"passQuery", "isActive", "isArchived"}
_REQUIRED_TEXTS = {"slug", "name", "destinationPath"}
_SWITCH_VALUES = {"true": True, "false": False}


class CsvRow(NamedTuple):
    """A row of a file.

    number: the row number in a spreadsheet; the first link is in row 2. values: the cells' values
    by field name in the API.
    """

    number: int
    values: Mapping[str, Any]


def write_csv(records: Iterable[LinkRecord]) -> bytes:
    """Write the records as a CSV file with a header. Escapes cells that could run as formulas."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for record in records:
        values = record.model_dump(mode="json", by_alias=True)
        writer.writerow(encode_cell(_text(values[name])) for name in COLUMNS)
    return file.getvalue().encode()


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return ",".join(value)
        case _:
            return str(value)


def read_csv(body: bytes) -> list[CsvRow]:
    """Parse a file. Raises `Invalid` if it is not a CSV file of links, or is too long."""
    try:
        text = body.decode("utf-16" if body.startswith(_BOMS_UTF16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid([Fault("body", "not_utf8", "Save the file as CSV in UTF-8.")]) from None
    line, _, rest = text.partition("\n")
    stated = stated_separator(line)
    text, line = (text, line) if stated is None else (rest, rest.partition("\n")[0])
    separator = stated or separator_of(line)
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        _check_header(header)
        return list(_rows(header, reader))
    except csv.Error as error:
        message = f"Line {reader.line_num} is not CSV with {separator!r} and quotes: {error}."
        raise Invalid([Fault("body", "not_csv", message)]) from None


def _check_header(header: Sequence[str]) -> None:
    unknown = [name for name in header if name not in COLUMNS]
    if unknown or "slug" not in header:
        problem = (
            f"There is no column {unknown[0][:50]!r}" if unknown else "The column slug is missing"
        )
        message = f"{problem}. Columns: {', '.join(COLUMNS)}."
        raise Invalid([Fault("body", "unknown_column", message)])
    if repeated := [name for name, times in Counter(header).items() if times > 1]:
        raise Invalid([Fault("body", "repeated", f"The column {repeated[0]} appears twice.")])


def _rows(header: Sequence[str], lines: Iterator[list[str]]) -> Iterator[CsvRow]:
    count = 0
    for number, cells in enumerate(lines, 2):
        if not any(cells):
            continue
        count += 1
        if count > MAX_ROWS:
            message = f"The file has more than {MAX_ROWS:,} links; split it."
            raise Invalid([Fault("body", "too_many", message)])
        if len(cells) > len(header):
            message = f"Row {number} has more cells than the header; quote texts with separators."
            raise Invalid([Fault("body", "not_csv", message)])
        values = {
            name: _value(name, decode_cell(cell))
            for name, cell in zip(header, cells, strict=False)
            if name not in _IGNORED
        }
        yield CsvRow(number, {name: value for name, value in values.items() if value is not _KEEP})


_KEEP = object()
"""Marks an empty cell in a column that does not allow empty values. The stored value stays
unchanged.
"""


def _value(name: str, cell: str) -> Any:
    """Convert a cell to a JSON value, without validating it."""
    if name == "tags":
        return [tag for tag in cell.split(",") if tag.strip()]
    if name in _SWITCHES:
        return _SWITCH_VALUES.get(cell.strip().lower(), cell) if cell else _KEEP
    if name in ("id", "websiteId"):
        return cell or _KEEP
    return cell if cell or name in _REQUIRED_TEXTS else None
