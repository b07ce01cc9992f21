"""HTTP routes for imports."""

from anyio import to_thread
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import CHECKS_WEBSITE, UPLOAD_MEDIA_TYPES
from penstock.accounts.model import Caller, CurrentUser
from penstock.events.imports.formats.schema import ImportedLine
from penstock.events.imports.formats.table import READERS
from penstock.events.imports.schema import (
    ImportQuery,
    ImportRecord,
    ListedImportRecord,
    RejectRecord,
)
from penstock.events.imports.service import ImportService
from penstock.http.answers import answer, answer_list
from penstock.http.bodies import (
    is_zipped,
    read_query,
)
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, media_type_of
from penstock.http.schema import PageQuery, RecordsQuery
from penstock.http.scopes import KeyScope

_UPLOADS = tuple(dict.fromkeys(reader.media_types[0] for reader in READERS))


@post(
    "/api/imports",
    opt=described(
        "Import past events",
        body=ImportedLine,
        media=_UPLOADS,
        query=ImportQuery,
        answers=ImportRecord,
        scopes=(KeyScope.INGEST,),
        tag="imports",
    )
    | {UPLOAD_MEDIA_TYPES: _UPLOADS},
)
async def create_import(
    request: AnyRequest, caller: NamedDependency[Caller], imports: NamedDependency[ImportService]
) -> Response[bytes]:
    """Upload a file of past events, plain or compressed. A job reads it once it is on disk.

    With `dryRun`, nothing is stored until the import is started.

    Importing the same file again is safe. A line is identified by its `dedupeKey` or
    `transactionId`, or else by its content and the number of equal lines before it.
    """
    is_zipped(request)  # Reject any encoding other than gzip.
    query = read_query(request, ImportQuery)
    job = await imports.receive(caller, query, media_type_of(request), request.stream())
    return answer(ImportRecord.from_job(job), status=201)


@get(
    "/api/imports",
    opt=described(
        "Imports", query=RecordsQuery, answers=ListedImportRecord, listed=True, tag="imports"
    ),
)
async def list_imports(
    request: AnyRequest, caller: NamedDependency[Caller], imports: NamedDependency[ImportService]
) -> Response[bytes]:
    """List imports, newest first, without their mappings."""
    jobs = await to_thread.run_sync(
        imports.page, caller.workspace_id, read_query(request, RecordsQuery)
    )
    return await answer_list(jobs, ListedImportRecord.from_job)


@get(
    "/api/imports/{import_id:str}",
    opt=described(
        "An import",
        answers=ImportRecord,
        scopes=(KeyScope.INGEST, KeyScope.READ),
        tag="imports",
    )
    | {CHECKS_WEBSITE: True},
)
async def read_import(
    import_id: FromPath[str],
    caller: NamedDependency[Caller],
    imports: NamedDependency[ImportService],
) -> Response[bytes]:
    return answer(ImportRecord.from_job(await to_thread.run_sync(imports.find, caller, import_id)))


@get(
    "/api/imports/{import_id:str}/rejects",
    opt=described(
        "Rejected lines",
        query=PageQuery,
        answers=RejectRecord,
        listed=True,
        scopes=(KeyScope.INGEST, KeyScope.READ),
        tag="imports",
    )
    | {CHECKS_WEBSITE: True},
)
async def list_rejects(
    import_id: FromPath[str],
    request: AnyRequest,
    caller: NamedDependency[Caller],
    imports: NamedDependency[ImportService],
) -> Response[bytes]:
    """List rejected lines in file order, each with all its errors."""
    page = read_query(request, PageQuery).pagination
    rejects = await to_thread.run_sync(imports.rejects, caller, import_id, page)
    return await answer_list(rejects, RejectRecord.from_reject)


@post(
    "/api/imports/{import_id:str}/cancel",
    status_code=200,
    opt=described(
        "Cancel an import",
        answers=ImportRecord,
        scopes=(KeyScope.INGEST, KeyScope.MANAGE),
        tag="imports",
    )
    | {CHECKS_WEBSITE: True},
)
async def cancel_import(
    import_id: FromPath[str],
    caller: NamedDependency[Caller],
    imports: NamedDependency[ImportService],
) -> Response[bytes]:
    """Stop an import. Stored events are kept, and reports note that the rest is missing.

    A key without the scope `manage` can cancel only the imports of files that it sent itself.
    Requests are safe to repeat.
    """
    return answer(
        ImportRecord.from_job(await to_thread.run_sync(imports.cancel, caller, import_id))
    )


@post(
    "/api/imports/{import_id:str}/dismiss-gap",
    status_code=200,
    opt=described("Dismiss the gap of an import", answers=ImportRecord, tag="imports"),
)
async def dismiss_import_gap(
    import_id: FromPath[str],
    current_user: NamedDependency[CurrentUser],
    imports: NamedDependency[ImportService],
) -> Response[bytes]:
    """Mark an import's gap as harmless (owners only).

    Reports count as complete again and keep a note. Requests are safe to repeat.
    """
    return answer(
        ImportRecord.from_job(
            await to_thread.run_sync(imports.dismiss_gap, current_user, import_id)
        )
    )


ROUTES = (
    create_import,
    list_imports,
    read_import,
    list_rejects,
    cancel_import,
    dismiss_import_gap,
)
