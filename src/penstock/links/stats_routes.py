"""HTTP of the statistics of links."""

from functools import partial
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord
from penstock.links.stats import StatsService
from penstock.links.stats_schema import LinkStatsRecord, StatsQuery


@get(
    "/api/mobile/deferred-links/{link_id:str}/stats",
    opt=described("Statistics of a managed link", answers=LinkStatsRecord, query=StatsQuery, later=JobRecord, tag="managed links"),
)
async def read_stats(
    request: Request[Any, Any, Any],
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    link_stats: NamedDependency[StatsService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Clicks, opens and installs: in all, by hour, day, week or month, by platform and by country."""
    return await answered(partial(link_stats.of_link, caller.workspace_id, link_id, read_query(request, StatsQuery)))


ROUTES = (read_stats,)
