"""HTTP of results."""

import os
from collections.abc import Iterator
from functools import partial
from typing import IO, Any, cast

from anyio import to_thread
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.response import Stream

from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.funnels.results.asked import AskedFunnel, described_answer
from penstock.funnels.results.export import MEDIA_TYPES, ExportService, Format
from penstock.funnels.results.schema import ExportQuery, PreviewIn, ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.http.bodies import read_bytes, require_json
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

_CHUNK_BYTES = 256 * 1024


@get("/api/funnels/{funnel_id:str}/results", opt=described_answer("Results of a funnel", ResultsQuery, ResultsRecord))
async def read_results(funnel: NamedDependency[AskedFunnel], results: NamedDependency[ResultsService]) -> Response[bytes]:
    """Counts everything that was acknowledged before the call. The period selects units by their entry; they may complete after its end."""
    return await funnel.answered(ResultsQuery, results.results)


@post(
    "/api/funnels/preview",
    status_code=200,
    opt=described("Try a funnel", body=PreviewIn, answers=ResultsRecord, later=JobRecord, tag="funnels"),
)
async def preview_funnel(
    request: Request[Any, Any, Any],
    caller: NamedDependency[Caller],
    results: NamedDependency[ResultsService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """A funnel definition's fields and, beside them, the query parameters of results. Nothing is saved."""
    require_json(request)
    sent = await to_thread.run_sync(results.read_preview, caller.workspace_id, await read_bytes(request))
    return await answered(partial(results.preview, caller.workspace_id, sent))


@get("/api/funnels/{funnel_id:str}/export", opt=described_answer("Export of a funnel", ExportQuery))
async def export_funnel(funnel: NamedDependency[AskedFunnel], exports: NamedDependency[ExportService]) -> Response[bytes]:
    """A file with one row for the total and one for every cohort, on all pages, as CSV, JSON or Parquet."""

    def make(workspace_id: WorkspaceId, funnel_id: str, query: ExportQuery) -> Response[bytes]:
        file = exports.export(workspace_id, funnel_id, query)
        headers = {"Content-Disposition": f'attachment; filename="{funnel_id}.{query.format}"'}
        return cast("Response[bytes]", Stream(lambda: _chunks(file), media_type=MEDIA_TYPES[Format(query.format)], headers=headers))

    return await funnel.answered(ExportQuery, make)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The whole file, for each reader anew: the result of a job may be fetched several times. The file goes when nobody holds it."""
    offset = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, offset):
        yield chunk
        offset += len(chunk)


ROUTES = (read_results, preview_funnel, export_funnel)
