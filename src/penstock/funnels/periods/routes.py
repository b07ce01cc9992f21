"""HTTP route for comparisons of two periods."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.periods.schema import PeriodsQuery, PeriodsRecord
from penstock.funnels.periods.service import PeriodsService
from penstock.funnels.queries.request import FunnelRequest, describe_query


@get(
    "/api/funnels/{funnel_id:str}/periods",
    opt=describe_query("Comparison of two periods", PeriodsQuery, PeriodsRecord),
)
async def compare_periods(
    funnel: NamedDependency[FunnelRequest], periods: NamedDependency[PeriodsService]
) -> Response[bytes]:
    """Compares a period with an earlier one, which is counted as it looked when it was as old."""
    return await funnel.respond(PeriodsQuery, periods.compare)


ROUTES = (compare_periods,)
