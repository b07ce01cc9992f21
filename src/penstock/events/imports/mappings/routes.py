"""HTTP routes for saved mappings."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.events.imports.mappings.schema import (
    SavedMappingChange,
    SavedMappingIn,
    SavedMappingRecord,
)
from penstock.events.imports.mappings.service import ImportMappingService
from penstock.http.bodies import DEFAULT_BODY_BYTES
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import RevisionQuery, SearchQuery

_ALL = "/api/import-mappings"
_ONE = "/api/import-mappings/{mapping_id:str}"


@route("POST", _ALL, "Save a mapping", max_bytes=DEFAULT_BODY_BYTES, tag="imports")
def create_import_mapping(
    caller: Caller, import_mappings: ImportMappingService, saved: SavedMappingIn
) -> SavedMappingRecord:
    """Save the uses of a table's columns for further files.

    A dry run proposes it for a file with the same columns, in any order. Names are unique in the
    workspace. A workspace has at most 100 saved mappings.
    """
    return import_mappings.create(caller.workspace_id, saved)


@route("GET", _ALL, "Saved mappings", tag="imports")
def list_import_mappings(
    caller: Caller, import_mappings: ImportMappingService, query: SearchQuery
) -> Listing[SavedMappingRecord]:
    """List saved mappings, newest first."""
    return import_mappings.page(caller.workspace_id, query.pagination, query.search)


@route("GET", _ONE, "A saved mapping", tag="imports")
def read_import_mapping(
    caller: Caller, import_mappings: ImportMappingService, mapping_id: str
) -> SavedMappingRecord:
    return import_mappings.get(caller.workspace_id, mapping_id)


@route("PATCH", _ONE, "Change a saved mapping", max_bytes=DEFAULT_BODY_BYTES, tag="imports")
def change_saved_mapping(
    caller: Caller,
    import_mappings: ImportMappingService,
    mapping_id: str,
    change: SavedMappingChange,
    read_only: ReadOnlyFields,
) -> SavedMappingRecord:
    """Fields that you leave out keep their values.

    Imports that have begun keep the mapping that they began with. You can send read-only fields
    (`id`, `revision`, ...) back with their stored values.
    """
    return import_mappings.change(caller.workspace_id, mapping_id, change, read_only)


@route("DELETE", _ONE, "Delete a saved mapping", tag="imports")
def delete_import_mapping(
    caller: Caller, import_mappings: ImportMappingService, mapping_id: str, query: RevisionQuery
) -> None:
    """Imports that used the mapping keep their own copy."""
    import_mappings.delete(caller.workspace_id, mapping_id, query.revision)


ROUTES = (
    create_import_mapping,
    list_import_mappings,
    read_import_mapping,
    change_saved_mapping,
    delete_import_mapping,
)
