"""HTTP of imports."""

from typing import Any

from anyio import to_thread
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import FILE_MEDIA
from penstock.accounts.model import Caller
from penstock.base.errors import UnsupportedMedia
from penstock.events.imports.entries import ImportLine
from penstock.events.imports.schema import ImportQuery, ImportRecord, RejectRecord
from penstock.events.imports.service import ImportService
from penstock.http.answers import answer, listing
from penstock.http.bodies import is_zipped, read_query
from penstock.http.openapi import described
from penstock.http.schema import PageQuery, RecordsQuery

AnyRequest = Request[Any, Any, Any]

_NDJSON = "application/x-ndjson"
_ACCEPTED = (_NDJSON, "application/ndjson", "application/jsonl", "application/gzip", "text/plain")


@post(
    "/api/imports",
    opt=described("Import past events", body=ImportLine, media=_NDJSON, query=ImportQuery, answers=ImportRecord, tag="imports")
    | {FILE_MEDIA: _NDJSON},
)
async def create_import(request: AnyRequest, caller: NamedDependency[Caller], imports: NamedDependency[ImportService]) -> Response[bytes]:
    """The body is NDJSON, one event a line, plain or gzip. The answer comes when the file is on disk; a job reads it from there.

    The same file again makes no doubles: a line is recognised by its `dedupeKey` or `transactionId`, or else by its content and how many
    equal lines came before it.
    """
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    is_zipped(request)  # refuses other encodings; the file itself tells whether it is gzip
    if media not in _ACCEPTED:
        raise UnsupportedMedia(f"Send NDJSON, plain or as gzip, with the header Content-Type: {_NDJSON}.")
    job = await imports.receive(caller.workspace_id, read_query(request, ImportQuery), request.stream())
    return answer(ImportRecord.of(job), status=201)


@get("/api/imports", opt=described("Imports", query=RecordsQuery, answers=ImportRecord, listed=True, tag="imports"))
async def list_imports(request: AnyRequest, caller: NamedDependency[Caller], imports: NamedDependency[ImportService]) -> Response[bytes]:
    """Newest first."""
    found = await to_thread.run_sync(imports.page, caller.workspace_id, read_query(request, RecordsQuery))
    return listing(found, ImportRecord.of)


@get("/api/imports/{import_id:str}", opt=described("An import", answers=ImportRecord, tag="imports"))
async def read_import(
    import_id: FromPath[str], caller: NamedDependency[Caller], imports: NamedDependency[ImportService]
) -> Response[bytes]:
    return answer(ImportRecord.of(await to_thread.run_sync(imports.find, caller.workspace_id, import_id)))


@get(
    "/api/imports/{import_id:str}/rejects",
    opt=described("Rejected lines", query=PageQuery, answers=RejectRecord, listed=True, tag="imports"),
)
async def list_rejects(
    import_id: FromPath[str],
    request: AnyRequest,
    caller: NamedDependency[Caller],
    imports: NamedDependency[ImportService],
) -> Response[bytes]:
    """In the order of the lines, each with every reason."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(imports.rejects, caller.workspace_id, import_id, page)
    return listing(found, RejectRecord.of)


ROUTES = [create_import, list_imports, read_import, list_rejects]
