"""Creates and restores backups. All functions block.

A backup is a folder with `manifest.json` and `data`, which is a data folder. Hard links freeze the
event store and the files next to the stores at the moment of the metadata DB's snapshot. The backup
copies from the links while the service continues.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec

from penstock import __version__
from penstock.backup import store
from penstock.backup.fence import Fence, local_fence, remote_fence
from penstock.backup.model import FORMAT, MANIFEST, BackupFailed, CopyResult, Manifest, Schemas
from penstock.backup.staging import SNAPSHOTS, one_at_a_time, staging_folder
from penstock.backup.tree import (
    Base,
    copy_listed,
    copy_tree,
    entries_of,
    link_new_files,
    remove_tree,
)
from penstock.base.clock import Clock, iso, system_clock
from penstock.base.durable_files import sync_folder, write_durably
from penstock.base.errors import StoreUnavailable
from penstock.base.restores import Restore, note_restore
from penstock.metadb.database import Database
from penstock.metadb.secret_box import KEY_FILE
from penstock.metadb.snapshot import (
    DUMP_FILE,
    SQLITE_FILE,
    DumpFailed,
    restore_dump,
    snapshot,
)
from penstock.settings import Settings
from penstock.warehouse import migrations
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.frozen_copy import stored_rows

DATA = "data"
RESTORING = "penstock.restoring"
"""Name of the file that marks a data folder as not completely restored. No service starts on it."""
LOCK = "penstock.lock"
"""Name of the file that is locked by the process that uses the data folder."""

_UNFINISHED = "unfinished"
"""Name of the file that marks an unfinished backup. The next backup into that folder starts
over.
"""
_NOT_COPIED = {"warehouse", SNAPSHOTS}


class _Frozen(NamedTuple):
    """Contents of the staging folder: both stores at the same moment.

    database, schema, installation_id, rows: facts about the metadata DB, as in a manifest. at_ms:
    time of the snapshot. paused_s: seconds for which shipping was paused.
    """

    database: str
    schema: str
    installation_id: str | None
    rows: dict[str, int]
    at_ms: int
    paused_s: float


def back_up(
    settings: Settings,
    target: Path,
    base: Path | None,
    clock: Clock,
    *,
    is_running: bool,
) -> CopyResult:
    """Back up both stores into a new or empty folder. Raises `BackupFailed`.

    base: an earlier backup; the new backup shares files that have not changed since. is_running:
    whether a service uses the data folder; if not, the caller must hold the folder's lock.
    """
    if settings.warehouse_url is not None:
        raise BackupFailed(
            "the event store is a ClickHouse server: stop all nodes, then use its BACKUP DATABASE "
            "and pg_dump"
        )
    if settings.database_url is None and not (settings.data / SQLITE_FILE).exists():
        raise BackupFailed(f"{settings.data} contains no Penstock data")
    earlier = None if base is None else Base(base / DATA, read_manifest(base))
    with _translated_errors(), ExitStack() as stack:
        stack.enter_context(one_at_a_time(settings.data))
        _begin(target)
        database = stack.enter_context(
            closing(Database(settings.metadb_url, settings.limits.database_timeout_s))
        )
        staged = stack.enter_context(staging_folder(settings.data))
        fence = remote_fence if is_running else local_fence
        frozen = _freeze(settings.data, staged, database, fence, clock)
        result = _copy(frozen, staged, target, earlier)
        (target / _UNFINISHED).unlink()
        sync_folder(target)
        return result


def _freeze(data: Path, staged: Path, database: Database, fence: Fence, clock: Clock) -> _Frozen:
    """Write a snapshot of the metadata DB, and hard links to everything else.

    The transaction ends before the copy, which may take hours: an open transaction would prevent
    SQLite from reusing its log, and PostgreSQL from removing dead rows.
    """
    with ExitStack() as transaction:
        with fence(data, staged.name) as (installation_id, freeze_engine):
            paused_at_s = monotonic()
            # A file that moves into the metadata DB during the snapshot must be in the copy, in the
            # database, or in both. Its name shows when it is in both.
            _link_local_files(data, staged)
            metadata = transaction.enter_context(snapshot(database))
            at_ms = clock()
            _link_local_files(data, staged)
            is_other = not store.has_tables(metadata.connection) or (
                installation_id not in (None, store.installation_id(metadata.connection))
            )
            if is_other:
                raise BackupFailed(
                    "this is not the metadata database of the data folder; run this command with "
                    "the PENSTOCK_DATABASE_URL of the service"
                )
            # Freeze the engine last. A deletion that is complete in the snapshot is then also
            # complete in the frozen event store.
            freeze_engine()
        paused_s = monotonic() - paused_at_s
        file = metadata.write(staged)
        return _Frozen(
            database="sqlite" if file.name == SQLITE_FILE else "postgresql",
            schema=store.schema_version(metadata.connection),
            installation_id=store.installation_id(metadata.connection),
            rows=store.row_counts(metadata.connection),
            at_ms=at_ms,
            paused_s=paused_s,
        )


def _copy(frozen: _Frozen, staged: Path, target: Path, base: Base | None) -> CopyResult:
    tree, files, linked_bytes = copy_tree(staged, target / DATA, base)
    manifest = Manifest(
        format=FORMAT,
        version=__version__,
        created_at=iso(frozen.at_ms),
        database=frozen.database,
        schemas=Schemas(frozen.schema, stored_rows(staged / "warehouse", "schema_migrations")),
        installation_id=frozen.installation_id,
        rows=frozen.rows,
        stored_rows={
            table: stored_rows(staged / "warehouse", table)
            for table in ("events", "visitor_aliases", "visitor_traits", "clicks", "catalogue")
        },
        folders=tree.folders,
        links=tree.links,
        files=files,
    )
    write_durably(target / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return CopyResult(manifest, sum(file.size for file in files), linked_bytes, frozen.paused_s)


def restorable_manifest(settings: Settings, source: Path) -> Manifest:
    """Return the manifest of a backup, checked against these settings. Raises `BackupFailed`."""
    manifest = read_manifest(source)
    _check_versions(manifest)
    kind = "sqlite" if settings.database_url is None else "postgresql"
    if settings.warehouse_url is not None:
        raise BackupFailed(
            "the backup is for the embedded event store; unset PENSTOCK_WAREHOUSE_URL"
        )
    if manifest.database != kind:
        advice = "set" if manifest.database == "postgresql" else "unset"
        raise BackupFailed(
            f"the backup's metadata database is {manifest.database}; {advice} PENSTOCK_DATABASE_URL"
        )
    return manifest


def restore(settings: Settings, source: Path, manifest: Manifest) -> None:
    """Fill an empty data folder from a backup. The caller must hold the folder's lock.

    With PostgreSQL, also fills its database. An interrupted restore starts over. Raises
    `BackupFailed`.
    """
    with _translated_errors():
        _clear(settings.data)
        (settings.data / RESTORING).touch()
        sync_folder(settings.data)
        copy_listed(manifest, source / DATA, settings.data)
        if manifest.database == "postgresql":
            dump = settings.data / DUMP_FILE
            _restore_postgres(settings, dump)
            dump.unlink()
        note_restore(settings.data, Restore(iso(system_clock()), manifest.created_at))
        (settings.data / RESTORING).unlink()
        sync_folder(settings.data)


def read_manifest(backup: Path) -> Manifest:
    """Read a backup's manifest.

    Raises `BackupFailed` if the backup is incomplete or was created by a newer program.
    """
    try:
        text = (backup / MANIFEST).read_bytes()
        if (backup / _UNFINISHED).exists():
            raise FileNotFoundError
    except FileNotFoundError:
        raise BackupFailed(f"{backup} is not a complete backup of Penstock") from None
    try:
        if msgspec.json.decode(text)["format"] > FORMAT:
            raise BackupFailed(f"{backup} was made by a newer Penstock; use that version")
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, LookupError, TypeError):
        raise BackupFailed(f"{backup / MANIFEST} is damaged") from None


def _check_versions(manifest: Manifest) -> None:
    known = Schemas(Database.known_versions()[-1], migrations.migrations()[-1].version)
    if (
        manifest.schemas.database not in Database.known_versions()
        or manifest.schemas.event_store > known.event_store
    ):
        raise BackupFailed(
            f"the backup by Penstock {manifest.version} has {_text_of(manifest.schemas)}; this "
            f"Penstock {__version__} knows {_text_of(known)}; restore with the build that made "
            "the backup, or a newer one"
        )


def _text_of(schemas: Schemas) -> str:
    return f"schemas {schemas.database} (metadata) and {schemas.event_store} (events)"


def _restore_postgres(settings: Settings, dump: Path) -> None:
    with closing(Database(settings.metadb_url, settings.limits.database_timeout_s)) as database:
        with database.read() as connection:
            if store.has_tables(connection):
                raise BackupFailed(
                    "the database of PENSTOCK_DATABASE_URL is not empty; create a new one"
                )
        restore_dump(database, dump)


def _begin(target: Path) -> None:
    """Create the folder for a backup, and remove the remains of an interrupted backup."""
    target.mkdir(parents=True, exist_ok=True)
    if (target / _UNFINISHED).exists():
        (target / MANIFEST).unlink(missing_ok=True)
        remove_tree(target / DATA)
    elif entries_of(target):
        raise BackupFailed(f"{target} is not empty; each backup needs a folder of its own")
    (target / _UNFINISHED).touch()


def _clear(data: Path) -> None:
    """Clear a data folder that contains an interrupted restore. Any other folder must be empty."""
    entries = entries_of(data) - {data / LOCK}
    if not entries:
        return
    if data / RESTORING not in entries:
        raise BackupFailed(f"{data} is not empty; restore into a new data folder")
    for path in entries - {data / RESTORING}:
        if path.is_dir():
            remove_tree(path)
        else:
            path.unlink()


def _link_local_files(data: Path, staged: Path) -> None:
    """Link the files outside the stores: uploaded imports, recorded clicks, the secret key."""
    for path in sorted(data.iterdir()):
        if path.is_dir() and path.name not in _NOT_COPIED:
            (staged / path.name).mkdir(exist_ok=True)
            link_new_files(path, staged / path.name)
    key = data / KEY_FILE
    if key.is_file() and not (staged / KEY_FILE).exists():
        os.link(key, staged / KEY_FILE)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn errors of stores and disks into `BackupFailed`."""
    try:
        yield
    except DumpFailed as error:
        raise BackupFailed(str(error)) from error
    except StoreUnavailable as error:
        raise BackupFailed(f"a store does not answer: {error.reason}") from error
    except QueryFailed as error:
        raise BackupFailed(f"the event store refused: {str(error).splitlines()[0]}") from error
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        raise BackupFailed(f"{prefix}{error.strerror or error}") from error
