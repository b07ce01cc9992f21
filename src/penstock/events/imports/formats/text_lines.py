"""Reads the lines of a text file, plain or compressed, in small steps."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from penstock.base.patterns import BytesPattern
from penstock.events.imports.formats.reader import ReaderLimits, Row, UnreadableFile, too_long
from penstock.events.imports.formats.unpacking import unpacked

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes in a line. Reading stops at a longer line."""
_EMPTY_LINES = BytesPattern(rb"\s*\n")


def text_lines(path: Path, limits: ReaderLimits, *, keep_empty: bool = False) -> Iterator[Row]:
    """Yield every line of a stored file, as the content of a row.

    keep_empty: whether to yield empty lines as rows, because they may be inside quoted text. Raises
    `UnreadableFile` if reading cannot continue.
    """
    max_row_bytes = limits.max_row_bytes
    number = bytes_read = 0
    # The start of a line that continues in the next piece, possibly cut off, and its full size.
    start, size = b"", 0
    for piece, bytes_read in unpacked(path, limits.max_inflated_bytes):
        at, end_of_last, lines = 0, piece.rfind(b"\n") + 1, BytesIO(piece)
        while at < len(piece):
            if (
                not size
                and not keep_empty
                and (end_of_empty := _EMPTY_LINES.end_of_match(piece, at))
            ):
                count = piece.count(b"\n", at, end_of_empty)
                at, number = end_of_empty, number + count
                yield Row(number, number, bytes_read, empty_lines=count)
                continue
            if not size and at < end_of_last:
                lines.seek(at)
                for line in lines:
                    if at == end_of_last:
                        break
                    # Let the pattern skip this line and the empty lines after it.
                    if not keep_empty and line.isspace() and _EMPTY_LINES.end_of_match(line, 0):
                        break
                    at, number = at + len(line), number + 1
                    yield _row(number, bytes_read, line, max_row_bytes, keep_empty)
                continue
            end = piece.find(b"\n", at) + 1
            part = piece[at : end or None]
            at += len(part)
            if size <= max_row_bytes:
                start += part
            size += len(part)
            if size > MAX_LINE_BYTES:
                raise UnreadableFile(
                    f"Line {number + 1:,} has more than {MAX_LINE_BYTES:,} bytes; put each event "
                    "on a line of its own."
                )
            if end:
                number += 1
                yield _row(number, bytes_read, start, max_row_bytes, keep_empty)
                start, size = b"", 0
        if not piece:
            yield Row(number, number, bytes_read)
    if size:
        yield _row(number + 1, bytes_read, start, max_row_bytes, keep_empty)


def _row(number: int, bytes_read: int, text: bytes, max_bytes: int, keep_empty: bool) -> Row:
    text = text.removeprefix(BOM_UTF8)  # Files that were joined have several.
    if len(text.removesuffix(b"\n")) > max_bytes:
        return Row(number, number, bytes_read, faults=(too_long(max_bytes),))
    if not (keep_empty or text.strip()):
        return Row(number, number, bytes_read, empty_lines=1)
    return Row(number, number, bytes_read, text)
