"""HTTP routes for saved mappings."""

from anyio import to_thread
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.events.imports.mappings.schema import (
    SavedMappingChange,
    SavedMappingIn,
    SavedMappingRecord,
)
from penstock.events.imports.mappings.service import ImportMappingService
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import compute_on, parse_model, read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.read_only import split_read_only
from penstock.http.requests import AnyRequest
from penstock.http.schema import RevisionQuery, SearchQuery


@post(
    "/api/import-mappings",
    opt=described("Save a mapping", body=SavedMappingIn, answers=SavedMappingRecord, tag="imports"),
)
async def create_import_mapping(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    import_mappings: NamedDependency[ImportMappingService],
) -> Response[bytes]:
    """Save the uses of a table's columns for further files.

    A dry run proposes it for a file with the same columns, in any order. Names are unique in the
    workspace. A workspace has at most 100 saved mappings.
    """
    require_json(request)
    body = await read_bytes(request)
    saved = await compute_on(body, parse_model, body, SavedMappingIn)
    created = await to_thread.run_sync(import_mappings.create, caller.workspace_id, saved)
    return answer(created, status=201)


@get(
    "/api/import-mappings",
    opt=described(
        "Saved mappings", answers=SavedMappingRecord, query=SearchQuery, listed=True, tag="imports"
    ),
)
async def list_import_mappings(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    import_mappings: NamedDependency[ImportMappingService],
) -> Response[bytes]:
    """List saved mappings, newest first."""
    query = read_query(request, SearchQuery)
    return await answer_list(
        await to_thread.run_sync(
            import_mappings.page, caller.workspace_id, query.pagination, query.search
        )
    )


@get(
    "/api/import-mappings/{mapping_id:str}",
    opt=described("A saved mapping", answers=SavedMappingRecord, tag="imports"),
)
async def read_import_mapping(
    mapping_id: FromPath[str],
    caller: NamedDependency[Caller],
    import_mappings: NamedDependency[ImportMappingService],
) -> Response[bytes]:
    return answer(await to_thread.run_sync(import_mappings.get, caller.workspace_id, mapping_id))


@patch(
    "/api/import-mappings/{mapping_id:str}",
    opt=described(
        "Change a saved mapping",
        body=SavedMappingChange,
        answers=SavedMappingRecord,
        takes_read_only=True,
        tag="imports",
    ),
)
async def change_saved_mapping(
    request: AnyRequest,
    mapping_id: FromPath[str],
    caller: NamedDependency[Caller],
    import_mappings: NamedDependency[ImportMappingService],
) -> Response[bytes]:
    """Fields that you leave out keep their values.

    Imports that have begun keep the mapping that they began with. You can send read-only fields
    (`id`, `revision`, ...) back with their stored values.
    """
    require_json(request)
    sent = await read_bytes(request)
    body, read_only = await compute_on(
        sent, split_read_only, sent, SavedMappingChange, SavedMappingRecord
    )
    change = await compute_on(body, parse_model, body, SavedMappingChange)
    changed = await to_thread.run_sync(
        import_mappings.change, caller.workspace_id, mapping_id, change, read_only
    )
    return answer(changed)


@delete(
    "/api/import-mappings/{mapping_id:str}",
    opt=described("Delete a saved mapping", query=RevisionQuery, tag="imports"),
)
async def delete_import_mapping(
    request: AnyRequest,
    mapping_id: FromPath[str],
    caller: NamedDependency[Caller],
    import_mappings: NamedDependency[ImportMappingService],
) -> Response[None]:
    """Imports that used the mapping keep their own copy."""
    revision = read_query(request, RevisionQuery).revision
    await to_thread.run_sync(import_mappings.delete, caller.workspace_id, mapping_id, revision)
    return no_content()


ROUTES = (
    create_import_mapping,
    list_import_mappings,
    read_import_mapping,
    change_saved_mapping,
    delete_import_mapping,
)
