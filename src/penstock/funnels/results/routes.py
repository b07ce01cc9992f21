"""HTTP routes for results, previews and exports."""

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.funnels.queries.request import question
from penstock.funnels.results.export import ReportExporter
from penstock.funnels.results.schema import ExportQuery, PreviewIn, ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.funnels.results.tables import MEDIA_TYPES, Format
from penstock.http.answers import file_download
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import slow_route


@question("results", "Results of a funnel")
def read_results(
    caller: Caller, results: ResultsService, funnel_id: str, query: ResultsQuery
) -> ResultsRecord:
    """Counts every event accepted before the request.

    The period selects units by their entry. They may complete after the period.
    """
    return results.results(caller.workspace_id, funnel_id, query)


@slow_route(
    "POST",
    "/api/funnels/preview",
    "Preview a funnel",
    status=200,
    validated_by="funnels",
    scopes=(KeyScope.READ,),
    tag="funnels",
)
def preview_funnel(caller: Caller, results: ResultsService, draft: PreviewIn) -> ResultsRecord:
    """Send the fields of a definition and the query parameters of results in one body.

    Nothing is saved.
    """
    return results.preview(caller.workspace_id, draft)


@question("export", "Export of a funnel", returns=tuple(MEDIA_TYPES.values()))
def export_funnel(
    caller: Caller,
    exports: ReportExporter,
    audit_log: AuditLog,
    funnel_id: str,
    query: ExportQuery,
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with one row for the total and one for each cohort."""
    file, name = exports.export(caller.workspace_id, funnel_id, query)
    audit_log.record(caller, Action.EXPORTED, f"{funnel_id} {query.format}")
    return file_download(file, name, MEDIA_TYPES[Format(query.format)])


ROUTES = (read_results, preview_funnel, export_funnel)
