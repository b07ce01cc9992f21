"""HTTP routes for results, previews and exports."""

from functools import partial

from litestar import Response, get, post
from litestar.di import NamedDependency

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.fair_queue import FairQueue
from penstock.base.ids import WorkspaceId
from penstock.funnels.queries.request import FunnelRequest, describe_query
from penstock.funnels.results.export import ReportExporter
from penstock.funnels.results.schema import ExportQuery, PreviewIn, ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.funnels.results.tables import MEDIA_TYPES, Format
from penstock.http.answers import file_download
from penstock.http.bodies import read_bytes, require_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


@get(
    "/api/funnels/{funnel_id:str}/results",
    opt=describe_query("Results of a funnel", ResultsQuery, ResultsRecord),
)
async def read_results(
    funnel: NamedDependency[FunnelRequest], results: NamedDependency[ResultsService]
) -> Response[bytes]:
    """Counts every event accepted before the request.

    The period selects units by their entry. They may complete after the period.
    """
    return await funnel.respond(ResultsQuery, results.results)


@post(
    "/api/funnels/preview",
    status_code=200,
    opt=described(
        "Preview a funnel",
        body=PreviewIn,
        answers=ResultsRecord,
        job=JobRecord,
        scopes=(KeyScope.READ,),
        tag="funnels",
    ),
)
async def preview_funnel(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    results: NamedDependency[ResultsService],
    respond: NamedDependency[CancellableResponse],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Send the fields of a definition and the query parameters of results in one body.

    Nothing is saved.
    """
    require_json(request)
    body = await read_bytes(request)
    draft = await definition_checks.run(
        caller.workspace_id, results.read_preview, caller.workspace_id, body
    )
    return await respond(partial(results.preview, caller.workspace_id, draft))


@get(
    "/api/funnels/{funnel_id:str}/export",
    opt=describe_query("Export of a funnel", ExportQuery, returns=tuple(MEDIA_TYPES.values())),
)
async def export_funnel(
    funnel: NamedDependency[FunnelRequest],
    exports: NamedDependency[ReportExporter],
    caller: NamedDependency[Caller],
    audit_log: NamedDependency[AuditLog],
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with one row for the total and one for each cohort."""

    def export(workspace_id: WorkspaceId, funnel_id: str, query: ExportQuery) -> Response[bytes]:
        file, name = exports.export(workspace_id, funnel_id, query)
        audit_log.record(caller, Action.EXPORTED, f"{funnel_id} {query.format}")
        media_type = MEDIA_TYPES[Format(query.format)]
        return file_download(file, name, media_type)

    return await funnel.respond(ExportQuery, export)


ROUTES = (read_results, preview_funnel, export_funnel)
