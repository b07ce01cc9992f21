"""HTTP route for link statistics."""

from functools import partial

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord
from penstock.links.statistics.schema import LinkStatisticsRecord, StatisticsQuery
from penstock.links.statistics.service import StatisticsService


@get(
    "/api/mobile/deferred-links/{link_id:str}/stats",
    opt=described(
        "Statistics of a managed link",
        answers=LinkStatisticsRecord,
        query=StatisticsQuery,
        job=JobRecord,
        tag="managed links",
    ),
)
async def read_statistics(
    request: AnyRequest,
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    link_statistics: NamedDependency[StatisticsService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Counts clicks, opens and installs in total, by time bucket, by platform and by country."""
    query = read_query(request, StatisticsQuery)
    return await respond(partial(link_statistics.read, caller.workspace_id, link_id, query))


ROUTES = (read_statistics,)
