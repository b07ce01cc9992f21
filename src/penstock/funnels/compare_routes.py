"""HTTP of comparisons."""

from typing import Any

from anyio import to_thread
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.compare import CompareService
from penstock.funnels.compare_schema import CompareQuery, ComparisonRecord
from penstock.http.answers import answer
from penstock.http.bodies import read_query
from penstock.http.openapi import described


@get(
    "/api/funnels/{funnel_id:str}/compare",
    opt=described("Compare cohorts of a funnel", answers=ComparisonRecord, query=CompareQuery, tag="funnels"),
)
async def compare_cohorts(
    request: Request[Any, Any, Any],
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    comparisons: NamedDependency[CompareService],
) -> Response[bytes]:
    """Cohorts of one breakdown property against one of them: rates with intervals, differences, tests and what to beware of."""
    query = read_query(request, CompareQuery)
    return answer(await to_thread.run_sync(comparisons.compare, caller.workspace_id, funnel_id, query))


ROUTES = (compare_cohorts,)
