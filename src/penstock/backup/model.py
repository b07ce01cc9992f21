"""Plain types for backups. No I/O."""

from typing import NamedTuple

import msgspec

FORMAT = 1
MANIFEST = "manifest.json"
"""Name of the file that is written last. A folder without this file is not a complete backup."""


class BackupFailed(Exception):
    """A backup or restore failed. The message is shown to people."""


class File(msgspec.Struct, frozen=True):
    """A file in a backup. path: relative to `data`. size: in bytes. sha256: hex digest."""

    path: str
    size: int
    sha256: str


class SymbolicLink(msgspec.Struct, frozen=True):
    """A symbolic link inside a backup. target: relative path."""

    path: str
    target: str


class Schemas(msgspec.Struct, frozen=True):
    """Schema versions of the stores."""

    database: str
    event_store: int


class Manifest(msgspec.Struct, frozen=True):
    """Contents of a backup.

    version: version of the program that created it. created_at: time of the snapshot, ISO 8601.
    database: `sqlite` or `postgresql`. installation_id: the installation's ID in shipment tokens;
    None before the first shipment. rows: number of rows by table of the metadata DB. stored_rows:
    number of rows by table of the event store. folders: all folders, including empty ones.
    """

    format: int
    version: str
    created_at: str
    database: str
    schemas: Schemas
    installation_id: str | None
    rows: dict[str, int]
    stored_rows: dict[str, int]
    folders: list[str]
    links: list[SymbolicLink]
    files: list[File]


class CopyResult(NamedTuple):
    """Result of a backup or restore. linked_bytes: number of bytes shared with the base backup."""

    manifest: Manifest
    bytes: int
    linked_bytes: int
    paused_s: float


class Finding(NamedTuple):
    """The result of one check. problem: whether the check failed."""

    check: str
    text: str
    problem: bool = False
