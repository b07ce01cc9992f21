"""HTTP of comparisons."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.comparisons.schema import CompareQuery, ComparisonRecord
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.results.asked import AskedFunnel, described_answer


@get("/api/funnels/{funnel_id:str}/compare", opt=described_answer("Compare cohorts of a funnel", CompareQuery, ComparisonRecord))
async def compare_cohorts(funnel: NamedDependency[AskedFunnel], comparisons: NamedDependency[CompareService]) -> Response[bytes]:
    """Cohorts of one breakdown property against one of them: rates with intervals, differences, tests and what to beware of."""
    return await funnel.answered(CompareQuery, comparisons.compare)


ROUTES = (compare_cohorts,)
