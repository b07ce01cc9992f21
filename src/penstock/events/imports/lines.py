"""The lines of a stored file, plain or gzip, read in small steps.

A few bytes of gzip can hold billions of empty lines or empty members, so a step skips only some of
them: the reader can end its turn after each.
"""

import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from penstock.base.patterns import BytesPattern
from penstock.events.imports.content import GZIP_MAGIC

_PIECE_BYTES = 64 * 1024
_COMPRESSED_BYTES = 16 * 1024
"""What follows a member is copied after each, so it must be short."""
_MAX_LINE_BYTES = 16 * 1024 * 1024
"""No line of NDJSON is longer; a file with a longer one is not read any further."""
_MAX_EMPTY_AT_START = 1_000_000
_EMPTY_LINES = BytesPattern(rb"\s*\n")
_MAX_WITHOUT_CONTENT = 1_000
"""Calls of the decompressor in one step that return nothing, such as for empty members."""


class UnreadableFile(Exception):
    """The file ends the import: damaged or truncated gzip, or too large after decompression.

    Its text is for people.
    """


class Line(NamedTuple):
    """One step: a line with text, a line that is too long, some empty lines, or only work.

    number: of the last line so far. text: of a line with text. bytes_read: of the file as sent, up
    to about here. empty_lines: how many were skipped.
    """

    number: int
    bytes_read: int
    text: bytes = b""
    empty_lines: int = 0
    is_too_long: bool = False


def lines(path: Path, *, max_line_bytes: int, max_inflated_bytes: int) -> Iterator[Line]:
    """Every line of a stored file. `UnreadableFile` where it cannot be read any further."""
    empty_lines = 0
    for line in _split(_pieces(path, max_inflated_bytes), max_line_bytes):
        empty_lines += line.empty_lines
        if line.number == empty_lines >= _MAX_EMPTY_AT_START:
            raise UnreadableFile(f"The first {_MAX_EMPTY_AT_START:,} lines are empty.")
        yield line


def _split(pieces: Iterator[tuple[bytes, int]], max_line_bytes: int) -> Iterator[Line]:
    """pieces: of the content, each with the bytes of the file that were read for it."""
    number = bytes_read = 0
    start, size = b"", 0  # of a line that continues in the next piece; the start may be cut
    for piece, bytes_read in pieces:
        at = 0
        while at < len(piece):
            if not size and (end_of_empty := _EMPTY_LINES.end_of_match(piece, at)):
                count = piece.count(b"\n", at, end_of_empty)
                at, number = end_of_empty, number + count
                yield Line(number, bytes_read, empty_lines=count)
                continue
            end = piece.find(b"\n", at) + 1
            part = piece[at : end or None]
            at += len(part)
            if size <= max_line_bytes:
                start += part
            size += len(part)
            if size > _MAX_LINE_BYTES:
                raise UnreadableFile(
                    f"Line {number + 1:,} has more than {_MAX_LINE_BYTES:,} bytes; send NDJSON, "
                    "with one event per line."
                )
            if end:
                number += 1
                yield _line(number, bytes_read, start, max_line_bytes)
                start, size = b"", 0
        if not piece:
            yield Line(number, bytes_read)
    if size:
        yield _line(number + 1, bytes_read, start, max_line_bytes)


def _line(number: int, bytes_read: int, text: bytes, max_line_bytes: int) -> Line:
    if len(text.removesuffix(b"\n")) > max_line_bytes:
        return Line(number, bytes_read, is_too_long=True)
    content = text.removeprefix(BOM_UTF8) if number == 1 else text
    if not content.strip():
        return Line(number, bytes_read, empty_lines=1)
    return Line(number, bytes_read, text)


def _pieces(path: Path, max_inflated_bytes: int) -> Iterator[tuple[bytes, int]]:
    """The content in pieces, each with the bytes of the file that were read for it."""
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
    """The content of every member. An empty piece: much was read, and none of it has content."""
    member, data, piece, without_content = None, b"", b"", 0
    # After the end of the file, the decompressor may have more to return.
    while data or (data := file.read(_COMPRESSED_BYTES)) or piece:
        piece = b""
        if member is None and (data := data.lstrip(b"\0")):  # members may be padded
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
