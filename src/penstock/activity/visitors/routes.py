"""HTTP routes for visitors."""

from urllib.parse import unquote

from litestar import Response

from penstock.accounts.model import Caller
from penstock.activity.schema import StoredEventRecord
from penstock.activity.visitors.schema import (
    TimelineQuery,
    VisitorDetailRecord,
    VisitorRecord,
    VisitorsQuery,
    WebsiteQuery,
)
from penstock.activity.visitors.service import VisitorService
from penstock.base.paging import Listing
from penstock.http.bodies import read_query
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest, raw_path_after
from penstock.jobs.cancellable import CancellableResponse, slow_route
from penstock.jobs.schema import JobRecord

_TIMELINE = "/events"


@slow_route("GET", "/api/visitors", "Visitors", tag="activity")
def list_visitors(
    caller: Caller, visitors: VisitorService, query: VisitorsQuery
) -> Listing[VisitorRecord]:
    """List visitors of recent days, or visitors that match a search, most recently active first."""
    return visitors.visitors(caller.workspace_id, query, caller.website_id)


@route(
    "GET",
    "/api/visitors/{visitor_id:path}",
    "A visitor",
    query=WebsiteQuery,
    answers=VisitorDetailRecord,
    job=JobRecord,
    tag="activity",
)
async def read_visitor(
    request: AnyRequest, caller: Caller, visitors: VisitorService, respond: CancellableResponse
) -> Response[bytes]:
    """Returns a visitor by any of its IDs, with its user, merges, counts and last event."""
    id_and_suffix = raw_path_after(request, "/visitors/")
    # The framework does not match the timeline's route when the ID contains a slash.
    if id_and_suffix.endswith(_TIMELINE):
        timeline: Response[bytes] = await list_visitor_events.fn(request)
        return timeline
    visitor_id, query = unquote(id_and_suffix), read_query(request, WebsiteQuery)
    return await respond(
        lambda: visitors.visitor(caller.workspace_id, visitor_id, query, caller.website_id)
    )


@slow_route("GET", "/api/visitors/{visitor_id:str}/events", "Timeline of a visitor", tag="activity")
def list_visitor_events(
    request: AnyRequest, caller: Caller, visitors: VisitorService, query: TimelineQuery
) -> Listing[StoredEventRecord]:
    """List the visitor's events on all websites that share visitors, newest first.

    With an API key for one website, only that website's events are listed.
    """
    visitor_id = unquote(raw_path_after(request, "/visitors/").removesuffix(_TIMELINE))
    return visitors.timeline(caller.workspace_id, visitor_id, query, caller.website_id)


ROUTES = (list_visitors, read_visitor, list_visitor_events)
