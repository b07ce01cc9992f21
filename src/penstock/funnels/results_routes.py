"""HTTP of results."""

from functools import partial
from typing import Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.results import ResultsService
from penstock.funnels.results_schema import PreviewIn, ResultsQuery, ResultsRecord
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

AnyRequest = Request[Any, Any, Any]


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
    return await answered(partial(results.preview, caller.workspace_id, await read_bytes(request)))


ROUTES = (read_results, preview_funnel)
