"""HTTP routes for imports."""

from functools import partial

from penstock.accounts.callers import CHECKS_WEBSITE, UPLOAD_MEDIA_TYPES
from penstock.accounts.model import Caller, CurrentUser
from penstock.base.paging import Listing
from penstock.events.imports.formats.schema import ImportedLine
from penstock.events.imports.formats.table import READERS
from penstock.events.imports.schema import (
    ImportQuery,
    ImportRecord,
    ListedImportRecord,
    RejectRecord,
)
from penstock.events.imports.service import ImportService
from penstock.http.bodies import is_zipped
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest, media_type_of
from penstock.http.schema import PageQuery, RecordsQuery
from penstock.http.scopes import KeyScope

_ALL = "/api/imports"
_ONE = "/api/imports/{import_id:str}"
_UPLOADS = tuple(dict.fromkeys(reader.media_types[0] for reader in READERS))
_import_route = partial(route, opt={CHECKS_WEBSITE: True}, tag="imports")


@route(
    "POST",
    _ALL,
    "Import past events",
    body=ImportedLine,
    media=_UPLOADS,
    scopes=(KeyScope.INGEST,),
    opt={UPLOAD_MEDIA_TYPES: _UPLOADS},
    tag="imports",
)
async def create_import(
    request: AnyRequest, caller: Caller, imports: ImportService, query: ImportQuery
) -> ImportRecord:
    """Upload a file of past events, plain or compressed. A job reads it once it is on disk.

    With `dryRun`, nothing is stored until the import is started.

    Importing the same file again is safe. A line is identified by its `dedupeKey` or
    `transactionId`, or else by its content and the number of equal lines before it.
    """
    is_zipped(request)  # Reject any encoding other than gzip.
    job = await imports.receive(caller, query, media_type_of(request), request.stream())
    return ImportRecord.from_job(job)


@route("GET", _ALL, "Imports", tag="imports")
def list_imports(
    caller: Caller, imports: ImportService, query: RecordsQuery
) -> Listing[ListedImportRecord]:
    """List imports, newest first, without their mappings."""
    return imports.page(caller.workspace_id, query).map(ListedImportRecord.from_job)


@_import_route("GET", _ONE, "An import", scopes=(KeyScope.INGEST, KeyScope.READ))
def read_import(caller: Caller, imports: ImportService, import_id: str) -> ImportRecord:
    return ImportRecord.from_job(imports.find(caller, import_id))


@_import_route("GET", f"{_ONE}/rejects", "Rejected lines", scopes=(KeyScope.INGEST, KeyScope.READ))
def list_rejects(
    caller: Caller, imports: ImportService, import_id: str, query: PageQuery
) -> Listing[RejectRecord]:
    """List rejected lines in file order, each with all its errors."""
    return imports.rejects(caller, import_id, query.pagination).map(RejectRecord.from_reject)


@_import_route(
    "POST",
    f"{_ONE}/cancel",
    "Cancel an import",
    status=200,
    scopes=(KeyScope.INGEST, KeyScope.MANAGE),
)
def cancel_import(caller: Caller, imports: ImportService, import_id: str) -> ImportRecord:
    """Stop an import. Stored events are kept, and reports note that the rest is missing.

    A key without the scope `manage` can cancel only the imports of files that it sent itself.
    Requests are safe to repeat.
    """
    return ImportRecord.from_job(imports.cancel(caller, import_id))


@route("POST", f"{_ONE}/dismiss-gap", "Dismiss the gap of an import", status=200, tag="imports")
def dismiss_import_gap(
    current_user: CurrentUser, imports: ImportService, import_id: str
) -> ImportRecord:
    """Mark an import's gap as harmless (owners only).

    Reports count as complete again and keep a note. Requests are safe to repeat.
    """
    return ImportRecord.from_job(imports.dismiss_gap(current_user, import_id))


ROUTES = (
    create_import,
    list_imports,
    read_import,
    list_rejects,
    cancel_import,
    dismiss_import_gap,
)
