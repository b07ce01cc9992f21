"""The files of imports in the data folder: kept durably before the client is answered, read line by line, removed when done.

`<import id>.part` while it arrives, `<import id>.ndjson` once it is whole and on disk.
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

from penstock.base.errors import TooLarge

_GZIP_MAGIC = b"\x1f\x8b"
_WRITE_BYTES = 1024 * 1024


class Unreadable(Exception):
    """The file ends the import: not gzip after all, cut off, or far too large once inflated. Its text is for people."""


class Kept(NamedTuple):
    """A file that is on disk. size: in bytes, as sent."""

    size: int
    sha256: str


class Line(NamedTuple):
    """text: None when the line is longer than allowed. bytes_read: of the file as sent, up to about here."""

    number: int
    text: bytes | None
    bytes_read: int


class ImportFiles:
    """One folder. Methods without `async` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, import_id: str) -> Path:
        return self._folder / f"{import_id}.ndjson"

    async def keep(self, import_id: str, chunks: AsyncIterator[bytes], max_bytes: int) -> Kept:
        """Write what arrives, durably. `TooLarge` beyond max_bytes. Nothing stays behind when it fails or the client goes away."""
        arriving = self._folder / f"{import_id}.part"
        await to_thread.run_sync(lambda: self._folder.mkdir(parents=True, exist_ok=True))
        digest, size, waiting = hashlib.sha256(), 0, bytearray()
        try:
            with arriving.open("wb") as file:

                def write() -> None:
                    digest.update(waiting)
                    file.write(waiting)
                    waiting.clear()

                async for chunk in chunks:
                    size += len(chunk)
                    if size > max_bytes:
                        raise TooLarge(f"An import is at most {max_bytes:,} bytes; split the file.")
                    waiting += chunk
                    if len(waiting) >= _WRITE_BYTES:
                        await to_thread.run_sync(write)
                await to_thread.run_sync(write)
                await to_thread.run_sync(lambda: _sync(file))
            await to_thread.run_sync(self._commit, arriving, self.path(import_id))
        except BaseException:
            arriving.unlink(missing_ok=True)
            raise
        return Kept(size, digest.hexdigest())

    def _commit(self, arriving: Path, path: Path) -> None:
        arriving.rename(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name must survive a power cut too
        finally:
            os.close(folder)

    def remove(self, import_id: str) -> None:
        self.path(import_id).unlink(missing_ok=True)

    def present(self) -> set[str]:
        """IDs of the imports whose whole file is here."""
        return {path.stem for path in self._folder.glob("*.ndjson")} if self._folder.is_dir() else set()

    def remove_unfinished(self) -> None:
        """What uploads left behind when the process died. Call it before any is taken."""
        for path in self._folder.glob("*.part"):
            with suppress(FileNotFoundError):
                path.unlink()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def lines(path: Path, *, max_line_bytes: int, max_inflated_bytes: int) -> Iterator[Line]:
    """Every line of a kept file, plain or gzip, in order. `Unreadable` where it goes on no further. Holds one line in memory."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == _GZIP_MAGIC
        raw.seek(0)
        source: BinaryIO = io.BufferedReader(gzip.GzipFile(fileobj=raw), _WRITE_BYTES) if zipped else raw
        inflated, number = 0, 0
        while True:
            try:
                text, size = _line(source, max_line_bytes, max_inflated_bytes - inflated)
            except EOFError:
                raise Unreadable("The gzip file is cut off; send it again.") from None
            except (gzip.BadGzipFile, zlib.error):
                raise Unreadable("The gzip file is damaged; send it again.") from None
            if not size:
                return
            number, inflated = number + 1, inflated + size
            if inflated > max_inflated_bytes:
                raise Unreadable(f"The file is larger than {max_inflated_bytes:,} bytes once inflated; split it.")
            yield Line(number, text, raw.tell())


def _line(source: BinaryIO, max_bytes: int, max_size: int) -> tuple[bytes | None, int]:
    """The next line and its size; 0 at the end of the file. A line that is too long is read past, not held: its text is None."""
    text = source.readline(max_bytes + 1)
    size = len(text)
    if size <= max_bytes or text.endswith(b"\n"):
        return text, size
    while size <= max_size and (rest := source.readline(_WRITE_BYTES)):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    return None, size
