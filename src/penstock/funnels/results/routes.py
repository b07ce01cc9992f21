"""HTTP of results."""

import os
from collections.abc import Iterator
from functools import partial
from typing import IO, Any, cast

from anyio import to_thread
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Stream

from penstock.accounts.model import Caller
from penstock.funnels.results.export import MEDIA_TYPES, ExportService, Format
from penstock.funnels.results.schema import ExportQuery, PreviewIn, ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

AnyRequest = Request[Any, Any, Any]

_CHUNK_BYTES = 256 * 1024


@get(
    "/api/funnels/{funnel_id:str}/results",
    opt=described("Results of a funnel", answers=ResultsRecord, query=ResultsQuery, later=JobRecord, tag="funnels"),
)
async def read_results(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    results: NamedDependency[ResultsService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Counts everything that was acknowledged before the call. The period selects units by their entry; they may complete after its end."""
    query = read_query(request, ResultsQuery)
    return await answered(partial(results.results, caller.workspace_id, funnel_id, query))


@post(
    "/api/funnels/preview",
    status_code=200,
    opt=described("Try a funnel", body=PreviewIn, answers=ResultsRecord, later=JobRecord, tag="funnels"),
)
async def preview_funnel(
    request: AnyRequest, caller: NamedDependency[Caller], results: NamedDependency[ResultsService], answered: NamedDependency[Answered]
) -> Response[bytes]:
    """A funnel definition's fields and, beside them, the query parameters of results. Nothing is saved."""
    require_json(request)
    sent = await to_thread.run_sync(results.read_preview, caller.workspace_id, await read_bytes(request))
    return await answered(partial(results.preview, caller.workspace_id, sent))


@get("/api/funnels/{funnel_id:str}/export", opt=described("Export of a funnel", query=ExportQuery, later=JobRecord, tag="funnels"))
async def export_funnel(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    exports: NamedDependency[ExportService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """A file with one row for the total and one for every cohort, on all pages, as CSV, JSON or Parquet."""
    query = read_query(request, ExportQuery)
    headers = {"Content-Disposition": f'attachment; filename="{funnel_id}.{query.format}"'}

    def make() -> Response[bytes]:
        file = exports.export(caller.workspace_id, funnel_id, query)
        return cast("Response[bytes]", Stream(lambda: _chunks(file), media_type=MEDIA_TYPES[Format(query.format)], headers=headers))

    return await answered(make)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The whole file, for each reader anew: the result of a job may be fetched several times. The file goes when nobody holds it."""
    offset = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, offset):
        yield chunk
        offset += len(chunk)


ROUTES = (read_results, preview_funnel, export_funnel)
