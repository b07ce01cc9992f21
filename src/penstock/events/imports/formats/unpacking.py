"""Unpacks files in small steps: gzip, Zstandard, ZIP archives, and UTF-16 text.

A few compressed bytes can hold billions of empty lines or empty members. Each step therefore reads
only some of them, and the caller can end its turn after any step. A ZIP archive may contain gzip
files; deeper nesting is not unpacked.
"""

import struct
import sys
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterator
from io import SEEK_END, SEEK_SET
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from penstock.events.imports.formats.reader import HEAD_BYTES, UnreadableFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESSED_ENDINGS = (".gz", ".zst", ".zip")
"""Endings that may follow the ending of a format in the name of a file."""
COMPRESSED_MEDIA_TYPES = ("application/gzip", "application/zstd", "application/zip")

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZIP_MAGIC = b"PK\x03\x04"
_BOMS_UTF16 = (BOM_UTF16_LE, BOM_UTF16_BE)
_GZIP_WBITS, _RAW_WBITS = 31, -15
"""Parameters of zlib: data with the header of gzip, and data without a header."""
_PIECE_BYTES = 64 * 1024
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
"""The window of a Zstandard frame is memory that the decompressor reserves: at most 8 MiB, as the
format recommends. `zstd --ultra` and `zstd --long` write larger ones.
"""
_LARGE_WINDOW = (
    "The Zstandard file needs a window of more than 8 MiB to decompress it. Compress it again "
    "without --ultra and --long."
)
_ZSTD_NO_MEMORY = "too much memory"
"""Text of the decompressor's error for a larger window; it has no code."""
_COMPRESSED_BYTES = 16 * 1024
"""Compressed bytes per read. The number is small, because the unread rest is copied after each
member.
"""
_MAX_WITHOUT_CONTENT = 1_000
"""Maximum decompressor calls without output in one step, for example for empty members."""
_MAX_DIRECTORY_BYTES = 2 * 1024 * 1024
"""Maximum size of a ZIP archive's directory, which is read as a whole: about 20,000 files, and
at most 45,000 with names of one letter, which take 0.3 s.
"""
_WORKBOOK = "[Content_Types].xml"
"""A file in each workbook of Excel, which is a ZIP archive."""
_IS_WORKBOOK = "The file is a workbook of a spreadsheet. Save its sheet as CSV in UTF-8."
_DATA_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".gz", ".zst")
_EMPTY_DEFLATED_BYTES = 2
"""Compressed size of a file without content."""
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1


def unpacked(path: Path, max_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yield the content in pieces, each with the number of file bytes read so far.

    A piece is empty if a lot of input had no content. Raises `UnreadableFile` if reading cannot
    continue, because the file is damaged, truncated or encrypted, or its content exceeds the limit.
    """
    with path.open("rb", buffering=0) as file:
        size = 0
        for piece in _contents(file):
            size += len(piece)
            if size > max_bytes:
                raise UnreadableFile(
                    f"The file has more than {max_bytes:,} bytes after decompression; split it."
                )
            yield piece, file.tell()


def unpacked_head(head: bytes) -> bytes:
    """Return the first bytes of the content of a file that starts with these bytes, in UTF-8.

    Returns an empty result if the start does not show the content. Damage is reported later, when
    the file is read. Raises `UnreadableFile` for an archive in an archive and for a workbook.
    """
    if head.startswith(_ZIP_MAGIC):
        head = _head_of_member(head)
    try:
        if head.startswith(_GZIP_MAGIC):
            head = zlib.decompressobj(wbits=_GZIP_WBITS).decompress(head, HEAD_BYTES)
        elif head.startswith(_ZSTD_MAGIC):
            head = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS).decompress(head, HEAD_BYTES)
    except (zlib.error, zstd.ZstdError):
        return b""
    if head.startswith(_BOMS_UTF16):
        return head.decode("utf-16", "ignore").encode()
    return head.removeprefix(BOM_UTF8)


def _contents(file: BinaryIO) -> Iterator[bytes]:
    magic = file.read(len(_ZIP_MAGIC))
    file.seek(0)
    if magic.startswith(_ZIP_MAGIC):
        yield from _files_of_archive(file)
        return
    is_plain = not magic.startswith((_GZIP_MAGIC, _ZSTD_MAGIC))
    chunks = iter(lambda: file.read(_PIECE_BYTES if is_plain else _COMPRESSED_BYTES), b"")
    yield from _as_utf8(_decompressed(chunks))


def _decompressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress the content of a file if it is gzip or Zstandard."""
    for first in chunks:
        if first:
            break
        yield first
    else:
        return
    chunks = chain([first], chunks)
    if first.startswith(_GZIP_MAGIC):
        yield from _inflated(chunks, _GZIP_WBITS)
    elif first.startswith(_ZSTD_MAGIC):
        yield from _zstd_content(chunks)
    else:
        yield from chunks


def _inflated(chunks: Iterator[bytes], wbits: int) -> Iterator[bytes]:
    """Yield the content of every gzip member, or of a single deflate stream without a header."""
    member, data, piece, without_content = None, b"", b"", 0
    # After the end of the file, the decompressor may still have data to return.
    while data or (data := next(chunks, b"")) or piece:
        piece = b""
        if member is None and (data := data.lstrip(b"\0") if wbits > 0 else data):
            member = zlib.decompressobj(wbits=wbits)  # Members of gzip may be padded.
        if member is not None:
            try:
                piece = member.decompress(data, _PIECE_BYTES)
            except zlib.error:
                raise _damaged() from None
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
        without_content = 0 if piece else without_content + 1
        if piece or without_content == _MAX_WITHOUT_CONTENT:
            without_content = 0
            yield piece
    if member is not None:
        raise _truncated()


def _zstd_content(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content of every Zstandard frame."""
    frame, data, without_content = None, b"", 0
    while data or (frame is not None and not frame.needs_input) or (data := next(chunks, b"")):
        frame = frame or zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        try:
            piece = frame.decompress(data, _PIECE_BYTES)
        except zstd.ZstdError as error:
            if _ZSTD_NO_MEMORY in str(error):
                raise UnreadableFile(_LARGE_WINDOW) from None
            raise _damaged() from None
        data = b""
        if frame.eof:
            data, frame = frame.unused_data, None
        without_content = 0 if piece else without_content + 1
        if piece or without_content == _MAX_WITHOUT_CONTENT:
            without_content = 0
            yield piece
    if frame is not None:
        raise _truncated()


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Remove a byte order mark. UTF-16 with such a mark is converted to UTF-8."""
    decoder, is_start = None, True
    for sent in pieces:
        piece = sent
        if is_start and sent:
            is_start = False
            piece = sent.removeprefix(BOM_UTF8)
            if piece.startswith(_BOMS_UTF16):
                decoder = getincrementaldecoder("utf-16")("surrogatepass")
        try:
            # A lone surrogate becomes invalid UTF-8, so that its line is rejected.
            yield decoder.decode(piece).encode("utf-8", "surrogatepass") if decoder else piece
        except UnicodeDecodeError:
            raise UnreadableFile("The UTF-16 text is damaged; send it again.") from None
    if decoder is not None and decoder.getstate()[0]:
        raise UnreadableFile("The UTF-16 text is truncated; send it again.")


# ZIP archives


class _Directory:
    """A file from which `ZipFile` reads the directory. Bounds each read and each position."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.tell, self.seekable = file, file.tell, file.seekable
        self.size = file.seek(0, SEEK_END)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        if whence == SEEK_END:
            offset = max(0, self.size + offset)
        elif whence != SEEK_SET:
            offset += self._file.tell()
        if not 0 <= offset <= self.size:
            raise BadZipFile
        return self._file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = _MAX_DIRECTORY_BYTES
        if size > _MAX_DIRECTORY_BYTES:
            raise UnreadableFile("The ZIP archive has too many files; split it.")
        return self._file.read(size)


def _files_of_archive(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of each file of an archive, in the order of its directory.

    A line never continues in the next file.
    """
    for info in _directory(file):
        yield b""
        last = b"\n"
        for piece in _as_utf8(_decompressed(_member(file, info))):
            _require_no_archive(info.filename, piece)
            yield piece
            last = piece[-1:] or last
        if last != b"\n":
            yield b"\n"


def _directory(file: BinaryIO) -> list[ZipInfo]:
    """Return the files of an archive, without folders and files that have no data by their names.

    Raises `UnreadableFile` if a file begins outside the archive, or if the files together exceed
    its size: reading the same bytes for many files would take hours.
    """
    directory = _Directory(file)
    try:
        with ZipFile(cast("BinaryIO", directory)) as archive:
            infos = archive.infolist()
    except (BadZipFile, NotImplementedError, ValueError, struct.error):
        raise _damaged() from None
    if any(info.filename == _WORKBOOK for info in infos):
        raise UnreadableFile(_IS_WORKBOOK)
    infos = [info for info in infos if _has_content(info) and not _is_left_out(info.filename)]
    are_within = all(0 <= info.header_offset <= directory.size for info in infos)
    if not are_within or sum(info.compress_size for info in infos) > directory.size:
        raise _damaged()
    return infos


def _is_left_out(name: str) -> bool:
    """Whether a file of an archive has no data: hidden, added by a system, or for people."""
    base = name.rpartition("/")[2].lower()
    is_for_people = base.partition(".")[0] in ("readme", "license", "licence")
    return (
        name.startswith("__MACOSX/")
        or base.startswith(".")
        or base in ("thumbs.db", "desktop.ini")
        or (is_for_people and not base.endswith(_DATA_ENDINGS))
    )


def _require_no_archive(name: str, start: bytes) -> None:
    """Raise `UnreadableFile` if a file of an archive is an archive itself."""
    if start.startswith(_ZIP_MAGIC):
        raise UnreadableFile(
            f"The ZIP archive contains the archive {name[-100:]!r}. Unpack it, and send the "
            "archives in it one by one."
        )


def _has_content(info: ZipInfo) -> bool:
    """Whether an entry is a file with content. `ZipInfo.is_dir` fails for an empty name."""
    is_empty = info.file_size == 0 and info.compress_size <= _EMPTY_DEFLATED_BYTES
    return not info.filename.endswith("/") and not is_empty


def _member(file: BinaryIO, info: ZipInfo) -> Iterator[bytes]:
    """Yield the content of a file of an archive, and check its hash and its size."""
    if info.flag_bits & _ENCRYPTED:
        raise UnreadableFile("The ZIP archive is encrypted; send it without a password.")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise UnreadableFile("The ZIP archive must be compressed with Deflate.")
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size:
        raise _truncated()
    magic, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    if magic != _ZIP_MAGIC:
        raise _damaged()
    file.seek(name_bytes + extra_bytes, 1)
    chunks = _stored(file, info.compress_size)
    crc = size = 0
    for piece in _inflated(chunks, _RAW_WBITS) if info.compress_type == ZIP_DEFLATED else chunks:
        crc, size = zlib.crc32(piece, crc), size + len(piece)
        yield piece
    # Some programs state only the lower 32 bits of a large size.
    if crc != info.CRC or (size - info.file_size) % 2**32:
        raise _damaged()


def _stored(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        chunk = file.read(min(size, _COMPRESSED_BYTES))
        if not chunk:
            raise _truncated()
        size -= len(chunk)
        yield chunk


def _head_of_member(head: bytes) -> bytes:
    """Return the start of an archive's first file; empty if that is a folder or encrypted."""
    if len(head) < _LOCAL_HEADER.size:
        return head
    _, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(head)
    name = head[_LOCAL_HEADER.size :][:name_bytes].decode("utf-8", "replace")
    content = head[_LOCAL_HEADER.size + name_bytes + extra_bytes :]
    if name == _WORKBOOK:
        raise UnreadableFile(_IS_WORKBOOK)
    if flags & _ENCRYPTED or name.endswith("/") or _is_left_out(name):
        return b""
    if method != ZIP_STORED:
        try:
            content = zlib.decompressobj(wbits=_RAW_WBITS).decompress(content, 2 * HEAD_BYTES)
        except zlib.error:
            return b""
    _require_no_archive(name, content)
    return content


def _damaged() -> UnreadableFile:
    return UnreadableFile("The compressed file is damaged; send it again.")


def _truncated() -> UnreadableFile:
    return UnreadableFile("The compressed file is truncated; send it again.")
