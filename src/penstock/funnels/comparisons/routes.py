"""HTTP of comparisons."""

from functools import partial
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.comparisons.schema import CompareQuery, ComparisonRecord
from penstock.funnels.comparisons.service import CompareService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord


@get(
    "/api/funnels/{funnel_id:str}/compare",
    opt=described("Compare cohorts of a funnel", answers=ComparisonRecord, query=CompareQuery, later=JobRecord, tag="funnels"),
)
async def compare_cohorts(
    request: Request[Any, Any, Any],
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    comparisons: NamedDependency[CompareService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Cohorts of one breakdown property against one of them: rates with intervals, differences, tests and what to beware of."""
    query = read_query(request, CompareQuery)
    return await answered(partial(comparisons.compare, caller.workspace_id, funnel_id, query))


ROUTES = (compare_cohorts,)
