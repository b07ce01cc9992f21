"""Reads the lines of a text file, plain or gzip, in small steps.

A few bytes of gzip can hold billions of empty lines or empty members. Each step therefore skips
only some of them, and the caller can end its turn after any step.
"""

import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from penstock.base.patterns import BytesPattern
from penstock.events.imports.formats.reader import ReaderLimits, Row, UnreadableFile, too_long

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes in a line. Reading stops at a longer line."""
_PIECE_BYTES = 64 * 1024
_COMPRESSED_BYTES = 16 * 1024
"""Compressed bytes per read. The number is small, because the unread rest is copied after each gzip
member.
"""
_EMPTY_LINES = BytesPattern(rb"\s*\n")
_MAX_WITHOUT_CONTENT = 1_000
"""Maximum decompressor calls without output in one step, for example for empty members."""


def is_utf16(head: bytes) -> bool:
    """Whether a file that begins with these bytes has a UTF-16 byte order mark."""
    return head.startswith((BOM_UTF16_LE, BOM_UTF16_BE))


def text_lines(path: Path, limits: ReaderLimits, *, keep_empty: bool = False) -> Iterator[Row]:
    """Yield every line of a stored file, as the content of a row.

    keep_empty: whether to yield empty lines as rows, because they may be inside quoted text. Raises
    `UnreadableFile` if reading cannot continue, because gzip data is damaged or truncated, or the
    content exceeds the limit.
    """
    max_row_bytes = limits.max_row_bytes
    number = bytes_read = 0
    # The start of a line that continues in the next piece, possibly cut off, and its full size.
    start, size = b"", 0
    for piece, bytes_read in _pieces(path, limits.max_inflated_bytes):
        at = 0
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
    if len(text.removesuffix(b"\n")) > max_bytes:
        return Row(number, number, bytes_read, faults=(too_long(max_bytes),))
    content = text.removeprefix(BOM_UTF8) if number == 1 else text
    if not (keep_empty or content.strip()):
        return Row(number, number, bytes_read, empty_lines=1)
    return Row(number, number, bytes_read, text)


def _pieces(path: Path, max_inflated_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yield the content in pieces, each with the number of file bytes read so far."""
    with path.open("rb", buffering=0) as file:
        is_gzip = file.read(2) == GZIP_MAGIC
        file.seek(0)
        inflated = 0
        for piece in _inflated(file) if is_gzip else iter(partial(file.read, _PIECE_BYTES), b""):
            inflated += len(piece)
            if inflated > max_inflated_bytes:
                raise UnreadableFile(
                    f"The file has more than {max_inflated_bytes:,} bytes after decompression; "
                    "split it."
                )
            yield piece, file.tell()


def _inflated(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of every gzip member. A piece is empty if a lot of input had no content."""
    member, data, piece, without_content = None, b"", b"", 0
    # After the end of the file, the decompressor may still have data to return.
    while data or (data := file.read(_COMPRESSED_BYTES)) or piece:
        piece = b""
        if member is None and (data := data.lstrip(b"\0")):  # Members may be padded.
            member = zlib.decompressobj(wbits=31)
        if member is not None:
            try:
                piece = member.decompress(data, _PIECE_BYTES)
            except zlib.error:
                raise UnreadableFile("The gzip file is damaged; send it again.") from None
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
        without_content = 0 if piece else without_content + 1
        if piece or without_content == _MAX_WITHOUT_CONTENT:
            without_content = 0
            yield piece
    if member is not None:
        raise UnreadableFile("The gzip file is truncated; send it again.")
