"""Reads and writes saved mappings, inside the caller's transaction."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from msgspec import json
from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from penstock.base.clock import iso
from penstock.base.ids import ImportMappingId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.mappings.schema import SavedMappingRecord
from penstock.metadb.named import check_number, named_page, named_record
from penstock.metadb.tables import import_mappings

MAX_MAPPINGS = 100
"""Maximum number of saved mappings in a workspace."""


def _hash_of(columns: Iterable[str]) -> str:
    """Return the hash of the names of columns, in any order."""
    return sha256(json.encode(sorted(columns))).hexdigest()


def _mapping(row: Row[*tuple[object, ...]]) -> SavedMappingRecord:
    return SavedMappingRecord(
        id=row.id,
        name=row.name,
        mapping=ImportMapping.model_validate(row.mapping),
        revision=row.revision,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def _stored(mapping: ImportMapping) -> dict[str, Any]:
    return mapping.model_dump(mode="json", exclude_defaults=True)


def _content(name: str, mapping: ImportMapping, now_ms: int) -> dict[str, object]:
    return {
        "name": name,
        "mapping": _stored(mapping),
        "columns_sha256": _hash_of(each.column for each in mapping.columns),
        "updated_at": now_ms,
    }


def add_mapping(
    db: Connection,
    workspace_id: WorkspaceId,
    mapping_id: ImportMappingId,
    name: str,
    mapping: ImportMapping,
    now_ms: int,
) -> None:
    """Add a mapping.

    Raises `StoreConflict` if the workspace has one with this name, and `Conflict` if it has
    `MAX_MAPPINGS`.
    """
    check_number(
        db, import_mappings, workspace_id, MAX_MAPPINGS, "saved mappings", code="too_many_mappings"
    )
    db.execute(
        insert(import_mappings).values(
            id=mapping_id,
            workspace_id=workspace_id,
            revision=1,
            created_at=now_ms,
            **_content(name, mapping, now_ms),
        )
    )


def find_mapping(
    db: Connection, workspace_id: WorkspaceId, mapping_id: str, *, hold: bool = False
) -> SavedMappingRecord | None:
    """Read a mapping. hold: whether to lock it until the transaction ends."""
    row = named_record(db, import_mappings, workspace_id, mapping_id, hold=hold)
    return None if row is None else _mapping(row)


def newest_mapping_of(
    db: Connection, workspace_id: WorkspaceId, columns: Iterable[str]
) -> SavedMappingRecord | None:
    """Read the mapping of exactly these columns that was changed last."""
    row = db.execute(_mappings_of(workspace_id, columns).limit(1)).one_or_none()
    return None if row is None else _mapping(row)


def find_equal_mapping(
    db: Connection, workspace_id: WorkspaceId, mapping: ImportMapping
) -> SavedMappingRecord | None:
    """Find the saved mapping with the same content whose last change is the newest."""
    content = _stored(mapping)
    rows = db.execute(_mappings_of(workspace_id, [each.column for each in mapping.columns]))
    return next((_mapping(row) for row in rows if row.mapping == content), None)


def _mappings_of(workspace_id: WorkspaceId, columns: Iterable[str]) -> Select[Any]:
    """Select the mappings of exactly these columns, by their last change, newest first."""
    c = import_mappings.c
    own = (c.workspace_id == workspace_id, c.columns_sha256 == _hash_of(columns))
    return select(import_mappings).where(*own).order_by(c.updated_at.desc(), c.id.desc())


def mappings_page(
    db: Connection, workspace_id: WorkspaceId, page: Page, search: str
) -> Listing[SavedMappingRecord]:
    """Return a page of mappings, newest first. search: text that the name must contain."""
    rows, total = named_page(db, import_mappings, workspace_id, page, search)
    return Listing([_mapping(row) for row in rows], page, total)


def change_mapping(
    db: Connection,
    mapping_id: str,
    name: str,
    mapping: ImportMapping,
    revision: int,
    now_ms: int,
) -> None:
    """Change a mapping. Raises `StoreConflict` if another one has this name."""
    changed = _content(name, mapping, now_ms) | {"revision": revision}
    db.execute(update(import_mappings).where(import_mappings.c.id == mapping_id).values(changed))


def delete_mapping(db: Connection, mapping_id: str) -> None:
    db.execute(delete(import_mappings).where(import_mappings.c.id == mapping_id))
