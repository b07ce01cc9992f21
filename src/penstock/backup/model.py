"""Plain types of backups. No I/O."""

from typing import NamedTuple

import msgspec

FORMAT = 1
MANIFEST = "manifest.json"
"""Written last: a folder without it is not a complete backup."""


class BackupFailed(Exception):
    """A backup or a restore cannot be done. Its text is for people."""


class File(msgspec.Struct, frozen=True):
    """A file of a backup. path: below `data`. size: bytes. sha256: hex."""

    path: str
    size: int
    sha256: str


class SymbolicLink(msgspec.Struct, frozen=True):
    """A symbolic link inside a backup; target: relative."""

    path: str
    target: str


class Schemas(msgspec.Struct, frozen=True):
    """Schema versions of the stores."""

    database: str
    event_store: int


class Manifest(msgspec.Struct, frozen=True):
    """What a backup contains.

    version: of the program that made it. created_at: the moment of the snapshot, ISO 8601.
    database: `sqlite` or `postgresql`. installation_id: as in shipment tokens; None before the
    first shipment. rows: of each table of the metadata DB. stored_rows: of each table of the event
    store. folders: empty ones too.
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
    """How much a backup or restore copied. linked_bytes: shared with the base backup."""

    manifest: Manifest
    bytes: int
    linked_bytes: int
    paused_s: float


class Finding(NamedTuple):
    """The result of one check. problem: whether the data are not as they should be."""

    check: str
    text: str
    problem: bool = False
