"""HTTP route for comparisons."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.comparisons.schema import CompareQuery, ComparisonRecord
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.queries.request import FunnelRequest, describe_query


@get(
    "/api/funnels/{funnel_id:str}/compare",
    opt=describe_query("Compare cohorts of a funnel", CompareQuery, ComparisonRecord),
)
async def compare_cohorts(
    funnel: NamedDependency[FunnelRequest], comparisons: NamedDependency[CompareService]
) -> Response[bytes]:
    """Compares the cohorts of a breakdown property with a baseline.

    The response contains confidence intervals, significance tests and warnings.
    """
    return await funnel.respond(CompareQuery, comparisons.compare)


ROUTES = (compare_cohorts,)
