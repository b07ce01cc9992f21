"""Checks the start of an upload against its format before anything is stored."""

from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable

from penstock.base.errors import UnsupportedMedia
from penstock.events.imports.formats.csv_rows import CSV
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.parquet import MAGIC, PARQUET
from penstock.events.imports.formats.reader import HEAD_BYTES, Reader, UnreadableFile
from penstock.events.imports.formats.recognition import reader_of_head
from penstock.events.imports.formats.table import how_to_send
from penstock.events.imports.formats.unpacking import unpacked_head

WayOut = Callable[[Reader], str]
"""Says in a sentence how to choose a format."""

_CONTROLS = frozenset(range(9))
"""Bytes that no text contains."""
_IS_BINARY = (
    "The file is neither text nor Parquet. If it was compressed in another way than gzip, "
    "Zstandard or ZIP, such as Brotli (.br), decompress it first."
)


async def require_format(
    chunks: AsyncIterator[bytes], reader: Reader, *, is_mapped: bool
) -> AsyncIterator[bytes]:
    """Yield the chunks unchanged. Raises `UnsupportedMedia` if they start like a file of another
    format.

    is_mapped: whether the sender has stated a mapping.
    """
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= 2 * HEAD_BYTES:  # An archive begins with the name of its first file.
            break
    problem = problem_of_head(head, reader, is_mapped=is_mapped)
    if problem is not None:
        raise UnsupportedMedia(problem, code=f"not_{reader.name}")
    yield head
    async for chunk in chunks:
        yield chunk


def _way_out_of_request(other: Reader) -> str:
    return f"Send {how_to_send(other)}."


def problem_of_head(
    head: bytes, reader: Reader, *, is_mapped: bool = False, way_out: WayOut = _way_out_of_request
) -> str | None:
    """Return why a file that begins with these bytes, as sent, is not in the reader's format.

    Names the format that the file seems to have, if it is another. is_mapped: whether a person has
    stated the mapping of the file. way_out: how the sender chooses that format.
    """
    try:
        content = unpacked_head(head)
    except UnreadableFile as unreadable:
        return str(unreadable)
    problem, other = reader.head_problem(content), reader_of_head(content)
    if problem is not None and not content.startswith(MAGIC) and _is_binary(content):
        return _IS_BINARY
    if other is None or other.name == reader.name:
        return problem
    if not _is_other(other, reader, problem, is_mapped=is_mapped):
        return problem
    return looks_like(other, reader, way_out)


def looks_like(other: Reader, reader: Reader, way_out: WayOut = _way_out_of_request) -> str:
    """Propose the format `other` instead of the reader's. way_out: how to choose it."""
    return f"The file looks like the format {other.name}, not {reader.name}. {way_out(other)}"


def _is_other(other: Reader, reader: Reader, problem: str | None, *, is_mapped: bool) -> bool:
    """Whether to name the format that a file seems to have instead of the reader's own reason."""
    if other in (NDJSON, CSV, PARQUET):  # If the reader reads such files too, its reason says more.
        return problem is not None and not set(other.endings) & set(reader.endings)
    return problem is not None or not is_mapped


def _is_binary(content: bytes) -> bool:
    """Whether this is text in no encoding: not UTF-8, and with control characters."""
    try:
        getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return not _CONTROLS.isdisjoint(content)
    return False
