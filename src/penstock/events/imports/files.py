"""Manages import files in the data folder.

A file is called `<import id>.part` during the upload, and `<import id>.<format>` once it is
complete and on disk.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from anyio import to_thread

from penstock.base.clock import Clock
from penstock.base.durable_files import sync_folder
from penstock.base.errors import TooLarge
from penstock.events.imports.formats.reader import UnreadableFile
from penstock.events.imports.formats.table import READERS

_WRITE_BYTES = 1024 * 1024
_WITHOUT_JOB_MS = 600_000
"""Time for which a file without a known job is kept, in milliseconds."""


class StoredFile(NamedTuple):
    """A file on disk. size: number of bytes, as sent."""

    size: int
    sha256: str


class ImportFiles:
    """The import files in one folder. Methods without `async` block."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._without_job: dict[str, int] = {}
        """For each import, the elapsed milliseconds at which its file was first seen without a job.
        """

    def path(self, import_id: str, file_format: str) -> Path:
        return self._folder / f"{import_id}.{file_format}"

    def readable_path(self, import_id: str, file_format: str) -> Path:
        """Return the path of a complete file.

        Raises `UnreadableFile` for a symbolic link, because it may lead out of the data folder.
        """
        path = self.path(import_id, file_format)
        if path.is_symlink():
            raise UnreadableFile("The file was replaced by a link. Import it again.")
        return path

    async def save(
        self,
        import_id: str,
        file_format: str,
        chunks: AsyncIterator[bytes],
        max_bytes: int,
        take_room: Callable[[int], None],
    ) -> StoredFile:
        """Write an upload durably. Raises `TooLarge` if it exceeds `max_bytes`.

        take_room: called with a number of bytes before they are written; it may block, and raises
        an error if there is no room. If the upload fails or the client disconnects, the partial
        file is removed.
        """
        part = self._folder / f"{import_id}.part"
        await to_thread.run_sync(lambda: self._folder.mkdir(parents=True, exist_ok=True))
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        try:
            with part.open("xb") as file:  # Follows no link, unlike "wb".

                def write() -> None:
                    take_room(len(buffer))
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
            await to_thread.run_sync(self._commit, part, self.path(import_id, file_format))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return StoredFile(size, digest.hexdigest())

    def _commit(self, part: Path, path: Path) -> None:
        part.rename(path)
        sync_folder(self._folder)

    def change_format(self, import_id: str, file_format: str, other: str) -> None:
        """Rename a complete file that has no job yet, because it is in another format."""
        self._commit(self.path(import_id, file_format), self.path(import_id, other))

    def move(self, import_id: str, file_format: str, other: "ImportFiles") -> None:
        """Move a complete file to another folder. Does nothing if it is not in this folder."""
        target = other.path(import_id, file_format)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            self.path(import_id, file_format).rename(target)
            sync_folder(target.parent)

    def remove_abandoned(self, import_ids: Collection[str]) -> None:
        """Remove files that have had no job for a while.

        import_ids: files without a job. An upload that failed with 503 may still have a job, or get
        one shortly.
        """
        now_ms = self._clock.elapsed_ms()
        self._without_job = {each: self._without_job.get(each, now_ms) for each in import_ids}
        for import_id, since_ms in self._without_job.items():
            if now_ms - since_ms > _WITHOUT_JOB_MS:
                self.remove(import_id)

    def remove(self, import_id: str) -> None:
        for reader in READERS:
            self.path(import_id, reader.name).unlink(missing_ok=True)

    def present(self) -> set[str]:
        """Return the IDs of imports whose complete file is on this node."""
        if not self._folder.is_dir():
            return set()
        return {path.stem for reader in READERS for path in self._folder.glob(f"*.{reader.name}")}

    def remove_unfinished(self) -> None:
        """Remove partial uploads left by a crash. Call this before the first upload."""
        for path in self._folder.glob("*.part"):
            with suppress(FileNotFoundError):
                path.unlink()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
