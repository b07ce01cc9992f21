"""HTTP routes for visitors."""

from functools import partial
from urllib.parse import unquote

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

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
from penstock.http.answers import listing
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, raw_path_after
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord

_TIMELINE = "/events"


@get(
    "/api/visitors",
    opt=described(
        "Visitors",
        answers=VisitorRecord,
        query=VisitorsQuery,
        listed=True,
        job=JobRecord,
        tag="activity",
    ),
)
async def list_visitors(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    visitors: NamedDependency[VisitorService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List visitors of recent days, or visitors that match a search, most recently active first."""
    query = read_query(request, VisitorsQuery)
    return await respond(
        lambda: listing(visitors.visitors(caller.workspace_id, query, caller.website_id))
    )


@get(
    "/api/visitors/{visitor_id:path}",
    opt=described(
        "A visitor",
        answers=VisitorDetailRecord,
        query=WebsiteQuery,
        job=JobRecord,
        tag="activity",
    ),
)
async def read_visitor(
    request: AnyRequest,
    visitor_id: FromPath[str],
    caller: NamedDependency[Caller],
    visitors: NamedDependency[VisitorService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns a visitor by any of its IDs, with its user, merges, counts and last event."""
    id_and_suffix = raw_path_after(request, "/visitors/")
    # The framework does not match the timeline's route when the ID contains a slash.
    if id_and_suffix.endswith(_TIMELINE):
        return await _timeline(
            request, unquote(id_and_suffix.removesuffix(_TIMELINE)), caller, visitors, respond
        )
    query = read_query(request, WebsiteQuery)
    return await respond(
        partial(
            visitors.visitor,
            caller.workspace_id,
            unquote(id_and_suffix),
            query,
            caller.website_id,
        )
    )


@get(
    "/api/visitors/{visitor_id:str}/events",
    opt=described(
        "Timeline of a visitor",
        answers=StoredEventRecord,
        query=TimelineQuery,
        listed=True,
        job=JobRecord,
        tag="activity",
    ),
)
async def list_visitor_events(
    request: AnyRequest,
    visitor_id: FromPath[str],
    caller: NamedDependency[Caller],
    visitors: NamedDependency[VisitorService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List the visitor's events on all websites that share visitors, newest first.

    With an API key for one website, only that website's events are listed.
    """
    return await _timeline(
        request,
        unquote(raw_path_after(request, "/visitors/").removesuffix(_TIMELINE)),
        caller,
        visitors,
        respond,
    )


async def _timeline(
    request: AnyRequest,
    visitor_id: str,
    caller: Caller,
    visitors: VisitorService,
    respond: CancellableResponse,
) -> Response[bytes]:
    query = read_query(request, TimelineQuery)
    return await respond(
        lambda: listing(
            visitors.timeline(caller.workspace_id, visitor_id, query, caller.website_id)
        )
    )


ROUTES = (list_visitors, read_visitor, list_visitor_events)
