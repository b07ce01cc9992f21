"""The list of formats. The API, its document, the command and the page use it."""

from penstock.base.errors import Fault, UnsupportedMedia
from penstock.base.wording import listed
from penstock.events.imports.formats.amplitude import AMPLITUDE
from penstock.events.imports.formats.csv_rows import CSV
from penstock.events.imports.formats.ga4 import GA4
from penstock.events.imports.formats.mixpanel import MIXPANEL
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.parquet import PARQUET
from penstock.events.imports.formats.posthog import POSTHOG
from penstock.events.imports.formats.reader import Reader
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.formats.segment import SEGMENT
from penstock.events.imports.formats.unpacking import COMPRESSED_ENDINGS, COMPRESSED_MEDIA_TYPES

READERS = (NDJSON, CSV, PARQUET, MIXPANEL, POSTHOG, AMPLITUDE, SEGMENT, GA4)
DEFAULT = NDJSON
_ANY_FORMAT = (*COMPRESSED_MEDIA_TYPES, "text/plain")
"""Media types that do not identify a format."""
MEDIA_TYPES = (*(media for reader in READERS for media in reader.media_types), *_ANY_FORMAT)
_BY_NAME = {reader.name: reader for reader in READERS}
_BY_MEDIA_TYPE = {media: reader for reader in reversed(READERS) for media in reader.media_types}


def reader_named(name: str, mapping: ImportMapping | None = None) -> Reader:
    """Return the reader of a stored import. Raises `KeyError` if the name is unknown.

    mapping: the uses of the columns, for a format that can have a mapping.
    """
    reader = _BY_NAME[name]
    return reader if mapping is None or reader.mapped is None else reader.mapped(mapping)


def reader_of_request(name: str | None, media_type: str) -> Reader:
    """Return the reader for a request, by its `format` parameter or media type.

    Raises `UnsupportedMedia` if the media type is unknown or contradicts the parameter. name: a
    known format, or None.
    """
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMedia(f"Send the file, plain or compressed, with {_content_types()}.")
    if name is None:
        return _BY_MEDIA_TYPE.get(media_type, DEFAULT)
    reader = reader_named(name)
    if media_type not in (*reader.media_types, *_ANY_FORMAT):
        raise UnsupportedMedia(
            f"The parameter format is {name}, but the Content-Type is {media_type}. "
            f"Send {_content_types()}."
        )
    return reader


def reader_of_file(file_name: str) -> Reader:
    """Return the reader for a file name's ending, or the default reader for an unknown ending."""
    base = file_name.lower()
    for ending in COMPRESSED_ENDINGS:
        base = base.removesuffix(ending)
    return next((reader for reader in READERS if base.endswith(reader.endings)), DEFAULT)


def how_to_send(reader: Reader) -> str:
    """Return the header, and the parameter if necessary, of a request with a file in a format."""
    media_type = reader.media_types[0]
    parameter = "" if _BY_MEDIA_TYPE[media_type] is reader else f"format={reader.name} and "
    return f"{parameter}Content-Type: {media_type}"


def mapping_fault(reader: Reader) -> Fault:
    """Return the fault of a mapping that was sent for a format without columns."""
    formats = listed([each.name for each in READERS if each.mapped is not None], "or")
    message = (
        f"The format {reader.name} has fields of its own. Leave the mapping out, or send the file "
        f"with format={formats}."
    )
    return Fault("mapping", "not_for_format", message)


def timezone_fault(reader: Reader) -> Fault | None:
    """Return the fault of a time zone that was sent for a file; None if the format has local
    times.
    """
    if reader.has_local_times:
        return None
    message = "Times in this format have an offset. Leave the time zone out."
    if reader.name == NDJSON.name:
        message += " A mapping names the zone of others, as timezone."
    elif reader.mapped is not None:
        message = "The mapping of a table names its time zone, as timezone."
    return Fault("timezone", "not_for_format", message)


def _content_types() -> str:
    return listed([f"{how_to_send(reader)} for {reader.name}" for reader in READERS], "or")
