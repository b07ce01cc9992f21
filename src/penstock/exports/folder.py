"""An export in a folder or bucket: its files, its manifest, and the list of files while it is
unfinished.

A file gets its name only once it is complete. `manifest.json` is written last and is removed before
anything changes, so an export that has it is complete. Until then, a list of finished files lets
the next run continue.
"""

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
from penstock.base.checksums import sha256_of
from penstock.base.clock import iso, system_clock
from penstock.base.patterns import Pattern
from penstock.base.row_files import RowFormat
from penstock.exports.storage import MANIFEST, Bucket, ExportFailed, Folder, Storage

FORMAT = 1
_UNFINISHED = "unfinished.ndjson"
_BATCH_ROWS = 2_000
_FOLDERS = ("events", "clicks", "identities", "outcomes", "cohorts")
LISTS = {
    "websites": ("/api/settings/websites",),
    "members": ("/api/exports/members",),
    "goals": ("/api/goals",),
    "segments": ("/api/segments",),
    "import_mappings": ("/api/import-mappings",),
    "funnels": ("/api/funnels",),
    "cohorts": ("/api/cohorts",),
    "links": ("/api/mobile/deferred-links", "/api/mobile/deferred-links?state=archived"),
}
"""Lists of the API that become files, by table. Archived links are a separate list."""
_OWN = Pattern(
    r"(?:manifest\.json|(?:LISTS)\.ndjson|(?:(?:events|clicks)/ID/\d{4}-\d\d-\d\d|"
    r"(?:identities|outcomes|cohorts)/ID)\.(?:parquet|ndjson))".replace(
        "ID", "[a-z]+_[0-9a-z]{26}"
    ).replace("LISTS", "|".join((*LISTS, "workspace", "unfinished")))
)
"""Paths of files that an export writes."""


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


class OmittedTable(msgspec.Struct, frozen=True, rename="camel"):
    """A table of a funnel that the service could not write. reason: message of the service."""

    table: str
    funnel_id: str
    name: str
    reason: str


class Span(msgspec.Struct, frozen=True):
    """First and last day with events, in UTC."""

    first_day: str = msgspec.field(name="firstDay")
    last_day: str = msgspec.field(name="lastDay")


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """Properties of an export that stay the same when it is repeated.

    id: random; stays the same when the files move. Earlier versions wrote none. run: random;
    differs each time, so that an export notices another one.
    """

    format: int
    file_format: RowFormat
    websites: list[str]
    id: str = ""
    run: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """Contents of a complete export.

    format: version of this layout. version: version of the program that wrote it. rows: number of
    rows by table. span: None without events. omitted: tables that it lacks. run: as in `Head`.
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
    run: str = ""
    omitted: list[OmittedTable] = []


class ExportFolder:
    """An export that is being written.

    id: identity of the destination. omitted: tables that it lacks. new_files, unchanged_days:
    numbers for the summary.
    """

    def __init__(self, storage: Storage, head: Head, earlier: Iterable[ExportedFile]) -> None:
        self._storage, self._head = storage, head
        self._earlier = {file.path: file for file in earlier}
        self._files: dict[str, ExportedFile] = {}
        self.id = head.id
        self.omitted: list[OmittedTable] = []
        self.new_files = self.unchanged_days = 0
        storage.begin_list(_UNFINISHED, _lines(head, self._earlier.values()))
        storage.remove(MANIFEST)

    def reuse(self, path: str, fingerprint: str) -> bool:
        """Whether an earlier run wrote this file with the same rows. If so, it stays."""
        file = self._earlier.get(path)
        if file is None or file.fingerprint != fingerprint:
            return False
        if self._storage.size(path) != file.bytes:
            return False
        self._files[path] = file
        self.unchanged_days += 1
        return True

    def write(self, path: str, table: str, chunks: Iterable[bytes], **more: str) -> ExportedFile:
        """Write a file durably under a temporary name, rename it, and note that it is finished.

        more: additional fields of `ExportedFile`.
        """
        part = self._storage.part(path)
        digest, size, newlines = sha256(), 0, 0
        with part.open("wb") as out:
            for chunk in chunks:
                out.write(chunk)
                digest.update(chunk)
                size, newlines = size + len(chunk), newlines + chunk.count(b"\n")
            out.flush()
            os.fsync(out.fileno())
        rows = _parquet_rows(part, path) if path.endswith(".parquet") else newlines
        self._storage.finish(part, path)
        file = ExportedFile(path, table, rows, size, digest.hexdigest(), **more)
        self._storage.append(msgspec.json.encode(file) + b"\n")
        self._files[path] = file
        self.new_files += 1
        return file

    def finish(self, workspace: str) -> Manifest:
        """Remove files of earlier runs that this run has not written, and write the manifest."""
        files = sorted(self._files.values(), key=lambda file: file.path)
        self._storage.require_exclusive()
        self._remove_others()
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
            run=self._head.run,
            omitted=self.omitted,
        )
        self._storage.require_exclusive()
        self._storage.publish(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        self._storage.remove(_UNFINISHED)
        return manifest

    def _remove_others(self) -> None:
        """Remove files that only an export can have written, even if no list has them.

        A kill can come between a file and the list, and the file can contain people who were
        deleted since. Raises `ExportFailed` if a file of this run has changed, for example by
        another export into the same bucket.
        """
        sizes = dict[str, int]()
        for folder in _FOLDERS:
            sizes |= self._storage.sizes(folder)
        for path, file in self._files.items():
            if path.partition("/")[0] in _FOLDERS and sizes.get(path) != file.bytes:
                raise ExportFailed(
                    f"something else has changed {path} in {self._storage} during the export; run "
                    "it again"
                )
        for path in (sizes.keys() | self._earlier.keys()) - self._files.keys():
            if _OWN.fullmatch(path):
                self._storage.remove(path)


@contextmanager
def open_export(
    storage: Storage, file_format: RowFormat, websites: list[str]
) -> Iterator[ExportFolder]:
    """Open a new or empty destination, or that of an earlier export of the same workspace.

    Raises `ExportFailed`.
    """
    with translated_errors(), storage.opened():
        head, earlier = _read_earlier(storage)
        _require_inside(storage, earlier)
        earlier_id = head.id if head is not None else ""
        new = Head(FORMAT, file_format, websites, earlier_id or token_hex(16), token_hex(16))
        if head is not None:
            _require_same(storage, head, new)
        storage.remove_parts(lambda path: _OWN.fullmatch(path) is not None)
        yield ExportFolder(storage, new, earlier)


def read_manifest(storage: Storage) -> Manifest:
    """Read the manifest of a complete export in an open destination. Raises `ExportFailed`."""
    text = storage.read(MANIFEST)
    if text is not None:
        return _decode_manifest(storage, text)
    if storage.size(_UNFINISHED) is not None:
        raise ExportFailed(
            f"the export in {storage} is not finished; run penstock export again first"
        )
    raise ExportFailed(f"{storage} contains no export of Penstock")


def download_export(bucket: Bucket, folder: Path, show: Callable[[int, int], None]) -> Manifest:
    """Copy a complete export into a new folder. Raises `ExportFailed`.

    show: called with the number of files copied so far, and of all files.
    """
    with translated_errors(), bucket.opened():
        manifest = read_manifest(bucket)
        _require_inside(Folder(folder), manifest.files)
        for number, file in enumerate(manifest.files, start=1):
            target = folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                bucket.download(file.path, target)
            except FileNotFoundError:
                raise ExportFailed(f"the file {file.path} of the export is missing") from None
            show(number, len(manifest.files))
    return manifest


def verify_files(root: Path, manifest: Manifest, show: Callable[[int, int], None]) -> None:
    """Compare every file with the manifest. Raises `ExportFailed` for the first difference.

    show: called with the number of files compared so far, and of all files.
    """
    _require_inside(Folder(root), manifest.files)
    for number, file in enumerate(manifest.files, start=1):
        try:
            digest = sha256_of(root / file.path)
        except FileNotFoundError:
            raise ExportFailed(f"the file {file.path} of the export is missing") from None
        if digest != file.sha256:
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
        prefix = f"{error.filename}: " if error.filename else ""
        raise ExportFailed(f"{prefix}{error.strerror or error}") from error


def _read_earlier(storage: Storage) -> tuple[Head | None, list[ExportedFile]]:
    """Return the head and the finished files of an earlier run. An empty destination has no
    head.
    """
    unfinished = storage.read(_UNFINISHED)
    if unfinished is not None:
        head, files = None, []
        for line in unfinished.splitlines():
            try:
                if head is None:
                    head = msgspec.json.decode(line, type=Head)
                else:
                    files.append(msgspec.json.decode(line, type=ExportedFile))
            except msgspec.DecodeError:
                break  # A crash cut this line off.
        if head is None:
            raise ExportFailed(f"{_UNFINISHED} in {storage} is damaged; choose a new folder")
        return head, files
    if storage.size(MANIFEST) is not None:
        manifest = read_manifest(storage)
        return _head_of(manifest), manifest.files
    if not storage.is_empty():
        raise ExportFailed(f"{storage} is not empty and has no export; choose a new folder")
    return None, []


def _head_of(manifest: Manifest) -> Head:
    return Head(manifest.format, manifest.file_format, manifest.websites, manifest.id)


def _require_inside(storage: Storage, files: Iterable[ExportedFile]) -> None:
    for file in files:
        if not storage.contains(file.path):
            raise ExportFailed(f"{storage} has an export that names a file outside it: {file.path}")


def _require_same(storage: Storage, earlier: Head, new: Head) -> None:
    if earlier.file_format is not new.file_format:
        raise ExportFailed(
            f"{storage} has an export as {earlier.file_format}; add --format "
            f"{earlier.file_format}, or choose a new folder"
        )
    if earlier.websites and not {*earlier.websites} & {*new.websites}:
        raise ExportFailed(f"{storage} has the export of another workspace; choose a new folder")


def _decode_manifest(storage: Storage, text: bytes) -> Manifest:
    try:
        if msgspec.json.decode(text)["format"] > FORMAT:
            raise ExportFailed(f"{storage} was written by a newer Penstock; use that version")
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, LookupError, TypeError):
        raise ExportFailed(f"{MANIFEST} in {storage} is damaged") from None


def _lines(head: Head, files: Iterable[ExportedFile]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (head, *files))


def _parquet_rows(part: Path, path: str) -> int:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_metadata

    try:
        rows: int = read_metadata(part).num_rows
    except ArrowInvalid:
        raise ExportFailed(f"the service sent an incomplete file for {path}") from None
    return rows
