"""The folder of an export: its files, its manifest, and the list of files while it is unfinished.

A file gets its name only once it is complete and on disk. `manifest.json` is written last and is
removed before anything changes, so a folder that has it is complete. Until then, a list of finished
files lets the next run continue.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from penstock import __version__
from penstock.base.clock import iso, system_clock
from penstock.base.durable_files import sync_folder, write_durably
from penstock.base.row_files import RowFormat

FORMAT = 1
MANIFEST = "manifest.json"
_UNFINISHED = "unfinished.ndjson"
_PART = ".part"
_CHUNK_BYTES = 1024 * 1024
_BATCH_ROWS = 2_000


class ExportFailed(Exception):
    """The folder cannot be written or read. The message is shown to people."""


class ExportedFile(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A file of an export.

    path: relative to the folder. table: kind of its rows. bytes: its size. sha256: hex digest.
    day: the day in UTC, if its table is exported by day. fingerprint: value that changes with the
    rows of the day.
    """

    path: str
    table: str
    rows: int
    bytes: int
    sha256: str
    website_id: str | None = None
    funnel_id: str | None = None
    day: str | None = None
    fingerprint: str | None = None


class Span(msgspec.Struct, frozen=True):
    """First and last day with events, in UTC."""

    first_day: str = msgspec.field(name="firstDay")
    last_day: str = msgspec.field(name="lastDay")


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """Properties of an export that stay the same when it is repeated.

    id: random; stays the same when the folder moves. Earlier versions wrote none.
    """

    format: int
    file_format: RowFormat
    websites: list[str]
    id: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """Contents of a complete export.

    format: version of this layout. version: version of the program that wrote it. rows: number of
    rows by table. span: None without events.
    """

    format: int
    file_format: RowFormat
    version: str
    workspace: str
    finished_at: str
    websites: list[str]
    span: Span | None
    rows: dict[str, int]
    files: list[ExportedFile]
    id: str = ""


class ExportFolder:
    """An export that is being written. The folder is locked.

    id: identity of the folder. new_files, unchanged_days: numbers for the summary.
    """

    def __init__(self, root: Path, head: Head, earlier: Iterable[ExportedFile]) -> None:
        self._root, self._head = root, head
        self._earlier = {file.path: file for file in earlier}
        self._files: dict[str, ExportedFile] = {}
        self.id = head.id
        self.new_files = self.unchanged_days = 0
        _replace(root / _UNFINISHED, _lines(head, self._earlier.values()))
        (root / MANIFEST).unlink(missing_ok=True)
        sync_folder(root)

    def reuse(self, path: str, fingerprint: str) -> bool:
        """Whether the folder already has this file with the same rows. If so, it stays."""
        file = self._earlier.get(path)
        try:
            is_same = (
                file is not None
                and file.fingerprint == fingerprint
                and (self._root / path).stat().st_size == file.bytes
            )
        except FileNotFoundError:
            return False
        if file is None or not is_same:
            return False
        self._files[path] = file
        self.unchanged_days += 1
        return True

    def write(self, path: str, table: str, chunks: Iterable[bytes], **more: str) -> ExportedFile:
        """Write a file durably under a temporary name, rename it, and note that it is finished.

        more: further fields of `ExportedFile`.
        """
        target = self._root / path
        part = target.with_name(target.name + _PART)
        digest, size, newlines = sha256(), 0, 0
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with part.open("wb") as out:
            for chunk in chunks:
                out.write(chunk)
                digest.update(chunk)
                size, newlines = size + len(chunk), newlines + chunk.count(b"\n")
            out.flush()
            os.fsync(out.fileno())
        rows = _parquet_rows(part) if target.suffix == ".parquet" else newlines
        part.rename(target)
        sync_folder(target.parent)
        file = ExportedFile(path, table, rows, size, digest.hexdigest(), **more)
        with (self._root / _UNFINISHED).open("ab") as notes:
            notes.write(msgspec.json.encode(file) + b"\n")
            notes.flush()
            os.fsync(notes.fileno())
        self._files[path] = file
        self.new_files += 1
        return file

    def finish(self, workspace: str) -> Manifest:
        """Remove files of an earlier run whose rows no longer exist, and write the manifest."""
        files = sorted(self._files.values(), key=lambda file: file.path)
        for path in self._earlier.keys() - self._files.keys():
            (self._root / path).unlink(missing_ok=True)
        rows: dict[str, int] = {}
        for file in files:
            rows[file.table] = rows.get(file.table, 0) + file.rows
        days = sorted(file.day for file in files if file.table == "events" and file.day)
        manifest = Manifest(
            format=FORMAT,
            file_format=self._head.file_format,
            version=__version__,
            workspace=workspace,
            finished_at=iso(system_clock()),
            websites=self._head.websites,
            span=Span(days[0], days[-1]) if days else None,
            rows=rows,
            files=files,
            id=self.id,
        )
        _replace(self._root / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        (self._root / _UNFINISHED).unlink()
        sync_folder(self._root)
        return manifest


@contextmanager
def open_export(root: Path, file_format: RowFormat, websites: list[str]) -> Iterator[ExportFolder]:
    """Open a new or empty folder, or the folder of an earlier export of the same workspace.

    Raises `ExportFailed`.
    """
    with translated_errors():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(root, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExportFailed(f"another export into {root} is running") from None
            head, earlier = _read_earlier(root)
            _require_inside(root, earlier)
            earlier_id = head.id if head is not None else ""
            new = Head(FORMAT, file_format, websites, earlier_id or token_hex(16))
            if head is not None:
                _require_same(root, head, new)
            for part in root.rglob(f"*{_PART}"):
                part.unlink()
            yield ExportFolder(root, new, earlier)
        finally:
            os.close(descriptor)


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of a complete export. Raises `ExportFailed`."""
    try:
        text = (root / MANIFEST).read_bytes()
    except FileNotFoundError:
        if (root / _UNFINISHED).exists():
            raise ExportFailed(
                f"the export in {root} is not finished; run penstock export again first"
            ) from None
        raise ExportFailed(f"{root} contains no export of Penstock") from None
    return _decode_manifest(root, text)


def verify_files(root: Path, manifest: Manifest, show: Callable[[int, int], None]) -> None:
    """Compare every file with the manifest. Raises `ExportFailed` for the first difference.

    show: called with the number of files compared so far, and of all files.
    """
    _require_inside(root, manifest.files)
    for number, file in enumerate(manifest.files, start=1):
        path = root / file.path
        digest = sha256()
        try:
            with path.open("rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
        except FileNotFoundError:
            raise ExportFailed(f"the file {file.path} of the export is missing") from None
        if digest.hexdigest() != file.sha256:
            raise ExportFailed(f"the file {file.path} of the export has changed or is damaged")
        show(number, len(manifest.files))


def read_rows(path: Path, file_format: RowFormat) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file. Times are ISO 8601 in both formats."""
    if file_format is RowFormat.NDJSON:
        with path.open("rb") as lines:
            for line in lines:
                yield msgspec.json.decode(line)
        return
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            for row in batch.to_pylist():
                yield {
                    name: value.isoformat() if isinstance(value, datetime) else value
                    for name, value in row.items()
                }


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn errors of the disk into `ExportFailed`."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise ExportFailed(f"{place}{error.strerror or error}") from error


def _read_earlier(root: Path) -> tuple[Head | None, list[ExportedFile]]:
    """Return the head and the finished files of an earlier run; no head for an empty folder."""
    if (root / _UNFINISHED).exists():
        head, files = None, []
        for line in (root / _UNFINISHED).read_bytes().splitlines():
            try:
                if head is None:
                    head = msgspec.json.decode(line, type=Head)
                else:
                    files.append(msgspec.json.decode(line, type=ExportedFile))
            except msgspec.DecodeError:
                break  # A crash cut this line off.
        if head is None:
            raise ExportFailed(f"{root / _UNFINISHED} is damaged; choose a new folder")
        return head, files
    if (root / MANIFEST).exists():
        manifest = read_manifest(root)
        return _head_of(manifest), manifest.files
    if any(path.name != "lost+found" for path in root.iterdir()):
        raise ExportFailed(f"{root} is not empty and has no export; choose a new folder")
    return None, []


def _head_of(manifest: Manifest) -> Head:
    return Head(manifest.format, manifest.file_format, manifest.websites, manifest.id)


def _require_inside(root: Path, files: Iterable[ExportedFile]) -> None:
    for file in files:
        if not (root / file.path).resolve().is_relative_to(root.resolve()):
            raise ExportFailed(f"{root} has an export that names a file outside it: {file.path}")


def _require_same(root: Path, earlier: Head, new: Head) -> None:
    if earlier.file_format is not new.file_format:
        raise ExportFailed(
            f"{root} has an export as {earlier.file_format}; add --format "
            f"{earlier.file_format}, or choose a new folder"
        )
    if earlier.websites and new.websites and not {*earlier.websites} & {*new.websites}:
        raise ExportFailed(f"{root} has the export of another workspace; choose a new folder")


def _decode_manifest(root: Path, text: bytes) -> Manifest:
    try:
        if msgspec.json.decode(text)["format"] > FORMAT:
            raise ExportFailed(f"{root} was written by a newer Penstock; use that version")
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, LookupError, TypeError):
        raise ExportFailed(f"{root / MANIFEST} is damaged") from None


def _lines(head: Head, files: Iterable[ExportedFile]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (head, *files))


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + _PART)
    write_durably(part, content)
    part.rename(path)


def _parquet_rows(path: Path) -> int:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_metadata

    try:
        rows: int = read_metadata(path).num_rows
    except ArrowInvalid:
        raise ExportFailed(f"the service sent an incomplete file for {path.name}") from None
    return rows
