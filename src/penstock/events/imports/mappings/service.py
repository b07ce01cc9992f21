"""Creates, reads, changes and deletes saved mappings."""

from penstock.base.clock import Clock, iso
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import ImportMappingId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.events.imports.mappings import store
from penstock.events.imports.mappings.schema import (
    SavedMappingChange,
    SavedMappingIn,
    SavedMappingRecord,
)
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields, check_revision
from penstock.metadb.database import Database
from penstock.metadb.named import unique_name

_NOUN = "saved mapping"


class ImportMappingService:
    """Manages saved mappings. Methods raise NotFound if the workspace has no such mapping."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def create(self, workspace_id: WorkspaceId, saved: SavedMappingIn) -> SavedMappingRecord:
        """Save a mapping.

        Raises Conflict if the name is taken or the workspace has too many saved mappings.
        """
        now_ms = self._clock()
        mapping_id = ImportMappingId(new_id("map", now_ms))
        with unique_name(_NOUN, saved.name), self._database.write() as db:
            store.add_mapping(db, workspace_id, mapping_id, saved.name, saved.mapping, now_ms)
        return SavedMappingRecord(
            id=mapping_id,
            name=saved.name,
            mapping=saved.mapping,
            revision=1,
            created_at=iso(now_ms),
            updated_at=iso(now_ms),
        )

    def get(self, workspace_id: WorkspaceId, mapping_id: str) -> SavedMappingRecord:
        with self._database.read() as db:
            return _existing(store.find_mapping(db, workspace_id, mapping_id))

    def of_import(self, workspace_id: WorkspaceId, mapping_id: str) -> SavedMappingRecord:
        """Return the mapping that an import names. Raises Invalid if there is no such mapping."""
        try:
            return self.get(workspace_id, mapping_id)
        except NotFound:
            message = (
                "There is no such saved mapping in this workspace. It may have been deleted: "
                "choose one from GET /api/import-mappings, or send the mapping itself."
            )
            raise Invalid([Fault("mappingId", "mapping_not_found", message)]) from None

    def page(
        self, workspace_id: WorkspaceId, page: Page, search: str = ""
    ) -> Listing[SavedMappingRecord]:
        """Return a page of mappings, newest first.

        search: text that the name must contain, ignoring case.
        """
        with self._database.read() as db:
            return store.mappings_page(db, workspace_id, page, search)

    def change(
        self,
        workspace_id: WorkspaceId,
        mapping_id: str,
        change: SavedMappingChange,
        read_only: ReadOnlyFields = NO_READ_ONLY_FIELDS,
    ) -> SavedMappingRecord:
        """Change the name or the uses of columns. Imports that have begun keep their mapping.

        Raises Invalid if a read-only field differs from its stored value, and Conflict if the sent
        revision is older than the stored one.
        """
        now_ms = self._clock()
        with unique_name(_NOUN, change.name or ""), self._database.write() as db:
            saved = _existing(store.find_mapping(db, workspace_id, mapping_id, hold=True))
            read_only.check(saved)
            name, mapping = change.name or saved.name, change.mapping or saved.mapping
            if (name, mapping.model_dump()) == (saved.name, saved.mapping.model_dump()):
                return saved
            revision = saved.revision + 1
            store.change_mapping(db, mapping_id, name, mapping, revision, now_ms)
        return saved.model_copy(
            update={
                "name": name,
                "mapping": mapping,
                "revision": revision,
                "updated_at": iso(now_ms),
            }
        )

    def delete(
        self, workspace_id: WorkspaceId, mapping_id: str, revision: int | None = None
    ) -> None:
        """Delete a mapping.

        revision: the only one to delete; None: any. Raises Conflict if the mapping has another
        revision.
        """
        with self._database.write() as db:
            saved = _existing(store.find_mapping(db, workspace_id, mapping_id, hold=True))
            check_revision(revision, saved.revision)
            store.delete_mapping(db, mapping_id)


def _existing(mapping: SavedMappingRecord | None) -> SavedMappingRecord:
    if mapping is None:
        raise NotFound("There is no such saved mapping in this workspace.")
    return mapping
