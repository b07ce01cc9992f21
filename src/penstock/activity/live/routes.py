"""HTTP routes for recent events."""

from functools import partial

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.activity.live.schema import RecentQuery, RecentRecord
from penstock.activity.live.service import LiveService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


@get(
    "/api/events/recent",
    opt=described(
        "Recent events",
        answers=RecentRecord,
        query=RecentQuery,
        job=JobRecord,
        tag="activity",
    ),
)
async def list_recent_events(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    live: NamedDependency[LiveService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List recent events, newest first.

    To get new events, poll with the response's cursor every second or two.
    """
    return await respond(
        partial(live.recent_events, caller.workspace_id, read_query(request, RecentQuery))
    )


ROUTES = (list_recent_events,)
