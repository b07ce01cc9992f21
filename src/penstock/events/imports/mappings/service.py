"""Creates, reads, changes and deletes saved mappings."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection

from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.mappings import store
from penstock.events.imports.mappings.schema import (
    SavedMappingChange,
    SavedMappingIn,
    SavedMappingRecord,
)
from penstock.metadb.tables import import_mappings
from penstock.named_records.service import RevisedRecords


class ImportMappingService(RevisedRecords[SavedMappingRecord]):
    """Manages saved mappings. Methods raise NotFound if the workspace has no such mapping."""

    table, model, noun, prefix = import_mappings, SavedMappingRecord, "saved mapping", "map"
    new, changes, maximum = SavedMappingIn, SavedMappingChange, 100
    revises_names = True
    path, tag = "/api/import-mappings", "imports"
    create_summary = "Save a mapping"
    on_create = """Save the uses of a table's columns for further files.

    A dry run proposes it for a file with the same columns, in any order. Names are unique in the
    workspace. A workspace has at most 100 saved mappings."""
    on_change = """Fields that you leave out keep their values.

    Imports that have begun keep the mapping that they began with. You can send read-only fields
    (`id`, `revision`, ...) back with their stored values."""
    on_delete = "Imports that used the mapping keep their own copy."

    def for_request(self, workspace_id: WorkspaceId, mapping_id: str) -> SavedMappingRecord:
        """Return the mapping that an import names. Raises Invalid if there is no such mapping."""
        try:
            return self.get(workspace_id, mapping_id)
        except NotFound:
            message = (
                "There is no such saved mapping in this workspace. It may have been deleted: "
                "choose one from GET /api/import-mappings, or send the mapping itself."
            )
            raise Invalid([Fault("mappingId", "mapping_not_found", message)]) from None

    def _columns(self, body: SavedMappingIn | SavedMappingChange) -> dict[str, Any]:
        return {} if body.mapping is None else store.columns_of(body.mapping)


def newest_mapping_of(
    db: Connection, workspace_id: WorkspaceId, columns: Iterable[str]
) -> SavedMappingRecord | None:
    """Return the mapping of exactly these columns that was changed last."""
    rows = store.rows_of(db, workspace_id, columns)
    return ImportMappingService.record_of(rows[0]) if rows else None


def find_equal_mapping(
    db: Connection, workspace_id: WorkspaceId, mapping: ImportMapping
) -> SavedMappingRecord | None:
    """Find the saved mapping with the same content whose last change is the newest."""
    content = store.columns_of(mapping)["mapping"]
    rows = store.rows_of(db, workspace_id, [each.column for each in mapping.columns])
    same = (row for row in rows if row["mapping"] == content)
    return next(map(ImportMappingService.record_of, same), None)
