"""The files of imports in the data folder: written durably, read line by line, then removed.

`<import id>.part` during the upload, `<import id>.ndjson` once it is complete and on disk.
"""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from anyio import to_thread

from penstock.base.durable_files import sync_folder
from penstock.base.errors import TooLarge
from penstock.events.imports.content import GZIP_MAGIC

_WRITE_BYTES = 1024 * 1024
_MAX_LINE_BYTES = 16 * 1024 * 1024
"""No line of NDJSON is longer; a file with a longer one is not read any further."""


class UnreadableFile(Exception):
    """The file ends the import: damaged or truncated gzip, or too large after decompression.

    Its text is for people.
    """


class StoredFile(NamedTuple):
    """A file on disk. size: in bytes, as sent."""

    size: int
    sha256: str


class Line(NamedTuple):
    """text: None when the line is too long. bytes_read: of the file as sent, up to about here."""

    number: int
    text: bytes | None
    bytes_read: int


class ImportFiles:
    """One folder. Methods without `async` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, import_id: str) -> Path:
        return self._folder / f"{import_id}.ndjson"

    async def save(
        self, import_id: str, chunks: AsyncIterator[bytes], max_bytes: int
    ) -> StoredFile:
        """Write an upload durably. `TooLarge` beyond max_bytes.

        Leaves nothing behind when it fails or the client disconnects.
        """
        part = self._folder / f"{import_id}.part"
        await to_thread.run_sync(lambda: self._folder.mkdir(parents=True, exist_ok=True))
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        try:
            with part.open("wb") as file:

                def write() -> None:
                    digest.update(buffer)
                    file.write(buffer)
                    buffer.clear()

                async for chunk in chunks:
                    size += len(chunk)
                    if size > max_bytes:
                        raise TooLarge(
                            f"An import may have at most {max_bytes:,} bytes; split the file."
                        )
                    buffer += chunk
                    if len(buffer) >= _WRITE_BYTES:
                        await to_thread.run_sync(write)
                await to_thread.run_sync(write)
                await to_thread.run_sync(lambda: _sync(file))
            await to_thread.run_sync(self._commit, part, self.path(import_id))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return StoredFile(size, digest.hexdigest())

    def _commit(self, part: Path, path: Path) -> None:
        part.rename(path)
        sync_folder(self._folder)

    def remove(self, import_id: str) -> None:
        self.path(import_id).unlink(missing_ok=True)

    def present(self) -> set[str]:
        """IDs of the imports whose complete file is here."""
        if not self._folder.is_dir():
            return set()
        return {path.stem for path in self._folder.glob("*.ndjson")}

    def remove_unfinished(self) -> None:
        """Remove partial uploads of a process that died. Call it before the first upload."""
        for path in self._folder.glob("*.part"):
            with suppress(FileNotFoundError):
                path.unlink()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def lines(path: Path, *, max_line_bytes: int, max_inflated_bytes: int) -> Iterator[Line]:
    """Every line of a stored file, plain or gzip, one at a time in memory.

    `UnreadableFile` where it cannot be read any further.
    """
    with path.open("rb") as raw:
        is_gzip = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        source: BinaryIO = (
            io.BufferedReader(gzip.GzipFile(fileobj=raw), _WRITE_BYTES) if is_gzip else raw
        )
        inflated, number = 0, 0
        while True:
            try:
                text, size = _read_line(source, max_line_bytes)
            except EOFError:
                raise UnreadableFile("The gzip file is truncated; send it again.") from None
            except (gzip.BadGzipFile, zlib.error):
                raise UnreadableFile("The gzip file is damaged; send it again.") from None
            if not size:
                return
            number, inflated = number + 1, inflated + size
            if inflated > max_inflated_bytes:
                raise UnreadableFile(
                    f"The file has more than {max_inflated_bytes:,} bytes after decompression; "
                    "split it."
                )
            if size > _MAX_LINE_BYTES:
                raise UnreadableFile(
                    f"Line {number:,} has more than {_MAX_LINE_BYTES:,} bytes; send NDJSON, with "
                    "one event per line."
                )
            # The position of a plain file is known; to ask the file costs a system call per line.
            yield Line(number, text, raw.tell() if is_gzip else inflated)


def _read_line(source: BinaryIO, max_bytes: int) -> tuple[bytes | None, int]:
    """The next line and its size; size 0 at the end. Skips a too long line; its text is None.

    Of a line over `_MAX_LINE_BYTES` the rest stays unread.
    """
    text = source.readline(max_bytes + 1)
    size = len(text)
    if size <= max_bytes or text.endswith(b"\n"):
        return text, size
    while size <= _MAX_LINE_BYTES and (rest := source.readline(_WRITE_BYTES)):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    return None, size
