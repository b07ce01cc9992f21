"""Reads saved mappings by their columns, inside the caller's transaction."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import json
from sqlalchemy import Connection, RowMapping, select

from penstock.base.ids import WorkspaceId
from penstock.events.imports.formats.schema import ImportMapping
from penstock.metadb.tables import import_mappings


def columns_of(mapping: ImportMapping) -> dict[str, Any]:
    """Return the columns of a mapping's row."""
    return {
        "mapping": mapping.model_dump(mode="json", exclude_defaults=True),
        "columns_sha256": _hash_of(each.column for each in mapping.columns),
    }


def rows_of(
    db: Connection, workspace_id: WorkspaceId, columns: Iterable[str]
) -> Sequence[RowMapping]:
    """Return the mappings of exactly these columns, by their last change, newest first."""
    c = import_mappings.c
    own = (c.workspace_id == workspace_id, c.columns_sha256 == _hash_of(columns))
    newest = select(import_mappings).where(*own).order_by(c.updated_at.desc(), c.id.desc())
    return db.execute(newest).mappings().all()


def _hash_of(columns: Iterable[str]) -> str:
    """Return the hash of the names of columns, in any order."""
    return sha256(json.encode(sorted(columns))).hexdigest()
