"""HTTP route for link statistics."""

from penstock.accounts.model import Caller
from penstock.jobs.cancellable import slow_route
from penstock.links.statistics.schema import LinkStatisticsRecord, StatisticsQuery
from penstock.links.statistics.service import StatisticsService


@slow_route(
    "GET",
    "/api/mobile/deferred-links/{link_id:str}/stats",
    "Statistics of a managed link",
    tag="managed links",
)
def read_statistics(
    caller: Caller, link_statistics: StatisticsService, link_id: str, query: StatisticsQuery
) -> LinkStatisticsRecord:
    """Counts clicks, opens and installs in total, by time bucket, by platform and by country."""
    return link_statistics.read(caller.workspace_id, link_id, query)


ROUTES = (read_statistics,)
