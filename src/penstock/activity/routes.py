"""HTTP of visitors and of events as they come in."""

from functools import partial
from typing import Any
from urllib.parse import unquote

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.activity.live import LiveService
from penstock.activity.schema import (
    RecentQuery,
    RecentRecord,
    StoredEventRecord,
    TimelineQuery,
    VisitorDetailRecord,
    VisitorRecord,
    VisitorsQuery,
    WebsiteQuery,
)
from penstock.activity.visitors import VisitorService
from penstock.http.answers import listing
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.paths import sent_after
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

AnyRequest = Request[Any, Any, Any]

_TIMELINE = "/events"


@get(
    "/api/visitors",
    opt=described("Visitors", answers=VisitorRecord, query=VisitorsQuery, listed=True, later=JobRecord, tag="activity"),
)
async def list_visitors(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    visitors: NamedDependency[VisitorService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """The one active last first: those of the last days, or those that a visitor ID or user ID stands for."""
    query = read_query(request, VisitorsQuery)
    return await answered(lambda: listing(visitors.visitors(caller.workspace_id, query)))


@get(
    "/api/visitors/{visitor_id:path}",
    opt=described("A visitor", answers=VisitorDetailRecord, query=WebsiteQuery, later=JobRecord, tag="activity"),
)
async def read_visitor(
    request: AnyRequest,
    visitor_id: FromPath[str],
    caller: NamedDependency[Caller],
    visitors: NamedDependency[VisitorService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """By any of its IDs: user, merges, numbers, last event."""
    rest = sent_after(request, "/visitors/")
    if rest.endswith(_TIMELINE):  # of an ID with a slash, which the framework reads as two parts of the path
        return await _timeline(request, unquote(rest.removesuffix(_TIMELINE)), caller, visitors, answered)
    query = read_query(request, WebsiteQuery)
    return await answered(partial(visitors.visitor, caller.workspace_id, unquote(rest), query))


@get(
    "/api/visitors/{visitor_id:str}/events",
    opt=described("Timeline of a visitor", answers=StoredEventRecord, query=TimelineQuery, listed=True, later=JobRecord, tag="activity"),
)
async def list_visitor_events(
    request: AnyRequest,
    visitor_id: FromPath[str],
    caller: NamedDependency[Caller],
    visitors: NamedDependency[VisitorService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Newest first, on all websites that share the visitor, with everything that was sent."""
    return await _timeline(request, unquote(sent_after(request, "/visitors/").removesuffix(_TIMELINE)), caller, visitors, answered)


async def _timeline(request: AnyRequest, visitor_id: str, caller: Caller, visitors: VisitorService, answered: Answered) -> Response[bytes]:
    query = read_query(request, TimelineQuery)
    return await answered(lambda: listing(visitors.timeline(caller.workspace_id, visitor_id, query)))


@get(
    "/api/events/recent",
    opt=described("What came in last", answers=RecentRecord, query=RecentQuery, later=JobRecord, tag="activity"),
)
async def list_recent_events(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    live: NamedDependency[LiveService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Newest first. Ask again with the answer's cursor, each second or two, to be given only what is new."""
    return await answered(partial(live.recent, caller.workspace_id, read_query(request, RecentQuery)))


ROUTES = (list_visitors, read_visitor, list_visitor_events, list_recent_events)
