"""Recognises the format of a file by its first bytes, and a product's table by its columns."""

from pathlib import Path

from msgspec import DecodeError, Raw, json

from penstock.base.csv_separators import separator_of
from penstock.events.imports.formats.amplitude import AMPLITUDE
from penstock.events.imports.formats.csv_rows import CSV
from penstock.events.imports.formats.ga4 import COLUMNS as GA4_COLUMNS
from penstock.events.imports.formats.ga4 import GA4
from penstock.events.imports.formats.mixpanel import MIXPANEL
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.parquet import MAGIC, PARQUET, names_columns
from penstock.events.imports.formats.posthog import POSTHOG
from penstock.events.imports.formats.reader import Reader
from penstock.events.imports.formats.segment import SEGMENT

_OBJECT = json.Decoder(dict[str, Raw])
_FIELDS = (
    (POSTHOG, {"event", "distinct_id"}),
    (AMPLITUDE, {"event_type"}),
    (GA4, {"event_name", "event_timestamp"}),
    (SEGMENT, {"type", "anonymousId"}),
    (SEGMENT, {"type", "messageId"}),
)
"""Fields that only the lines of a format have."""
_MIXPANEL_FIELDS, _NDJSON_FIELDS = {"event", "properties"}, {"type", "timestamp"}
_POSTHOG_COLUMNS = {"event", "distinct_id", "timestamp"}
_TABLES = (
    (POSTHOG, ("uuid", "event", "distinct_id", "properties", "timestamp")),
    (GA4, GA4_COLUMNS),
)
"""Columns that only the Parquet files of a product have."""


def reader_of_head(head: bytes) -> Reader | None:
    """Return the reader of the format that a file seems to have; None if that is not clear.

    head: the first bytes of the file, decompressed and without a byte order mark.
    """
    if head.startswith(MAGIC):
        return PARQUET
    line = head.lstrip().partition(b"\n")[0].strip()
    if line.startswith(b"{"):
        return _reader_of_object(line)
    header = line.decode("utf-8", "replace")
    columns = {cell.strip(' "') for cell in header.split(separator_of(header))}
    if len(columns) < 2 or line.startswith(b"["):
        return None
    return POSTHOG if columns >= _POSTHOG_COLUMNS else CSV


def product_of_table(path: Path, reader: Reader) -> Reader | None:
    """Return the reader of the product that wrote a Parquet file; None if that is not clear.

    reader: the reader of the file's format.
    """
    if reader.name != PARQUET.name:
        return None
    return next((product for product, own in _TABLES if names_columns(path, own)), None)


def _reader_of_object(line: bytes) -> Reader | None:
    try:
        fields = _OBJECT.decode(line).keys()
    except (DecodeError, RecursionError, UnicodeError):
        return None
    if fields == _MIXPANEL_FIELDS:
        return MIXPANEL
    reader = next((reader for reader, own in _FIELDS if fields >= own), None)
    return reader or (NDJSON if fields >= _NDJSON_FIELDS else None)
