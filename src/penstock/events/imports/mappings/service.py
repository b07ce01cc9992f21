"""Creates, reads, changes and deletes saved mappings."""

from collections.abc import Iterable, Mapping
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
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields
from penstock.metadb.tables import import_mappings
from penstock.named_records.service import RevisedRecords


class ImportMappingService(RevisedRecords[SavedMappingRecord]):
    """Manages saved mappings. Methods raise NotFound if the workspace has no such mapping."""

    table, model, noun, prefix = import_mappings, SavedMappingRecord, "saved mapping", "map"
    maximum = 100
    revises_names = True

    def create(self, workspace_id: WorkspaceId, saved: SavedMappingIn) -> SavedMappingRecord:
        return self._add(workspace_id, saved.name, mapping=saved.mapping)

    def change(
        self,
        workspace_id: WorkspaceId,
        mapping_id: str,
        change: SavedMappingChange,
        read_only: ReadOnlyFields = NO_READ_ONLY_FIELDS,
    ) -> SavedMappingRecord:
        """Change a mapping. Imports that have begun keep their own."""
        return self._change(
            workspace_id, mapping_id, change.name, read_only, mapping=change.mapping
        )

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

    def _columns(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return store.columns_of(content["mapping"]) if "mapping" in content else {}


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
