"""HTTP routes for attribution: apps report opens, and link owners read the audit list."""

from litestar import Response

from penstock.accounts.model import Caller
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.paging import Listing
from penstock.http.cors import AnyOriginCors, preflight
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest, address_of
from penstock.http.schema import PageQuery
from penstock.links.attribution.schema import (
    AppOpen,
    MatchesQuery,
    MatchRecord,
    ResolvedRecord,
    TouchesQuery,
    TouchesRecord,
)
from penstock.links.attribution.service import AttributionService

_ALL = "/api/mobile/deferred-links"
_RESOLVE = f"{_ALL}/resolve"
_ANY_ORIGIN = {"middleware": [AnyOriginCors()]}


@route(
    "POST",
    _RESOLVE,
    "Report an open of an app",
    status=200,
    max_bytes=MAX_EVENT_BYTES,
    body=AppOpen,
    open_to_all=True,
    handler_options=_ANY_ORIGIN,
    tag="managed links",
)
async def resolve_open(
    request: AnyRequest, attribution: AttributionService, app_open: bytes
) -> ResolvedRecord:
    """Finds the link that an open came from, if any, and stores an `install` or `open` event.

    The event is on disk before the response is sent. Requests are safe to repeat.
    """
    user_agent = request.headers.get("user-agent", "")
    decision, visitor_id = await attribution.resolve(app_open, address_of(request), user_agent)
    return ResolvedRecord.from_decision(decision, visitor_id)


@route("OPTIONS", _RESOLVE, status=204, handler_options=_ANY_ORIGIN)
async def preflight_resolve() -> Response[None]:
    return preflight()


@route(
    "GET", f"{_ALL}/{{link_id:str}}/matches", "App opens that involved a link", tag="managed links"
)
def list_link_matches(
    caller: Caller, attribution: AttributionService, link_id: str, query: PageQuery
) -> Listing[MatchRecord]:
    """Lists opens, newest first, with the method of each match or the reason why there is no
    match.
    """
    return attribution.matches_of_link(caller.workspace_id, link_id, query.pagination)


@route("GET", f"{_ALL}/matches", "App opens that asked for a link", tag="managed links")
def list_matches(
    caller: Caller, attribution: AttributionService, query: MatchesQuery
) -> Listing[MatchRecord]:
    """Lists opens, newest first, including opens that did not involve a link."""
    return attribution.matches(caller.workspace_id, query.website_id, query.pagination)


@route("GET", f"{_ALL}/attribution", "First and last touch of a visitor", tag="managed links")
def read_touches(
    caller: Caller, attribution: AttributionService, query: TouchesQuery
) -> TouchesRecord:
    """Returns the visitor's first and last link with their UTM parameters. Includes merged
    visitors.
    """
    return attribution.touches(caller.workspace_id, query.website_id, query.visitor_id)


# Litestar answers OPTIONS itself, unless the first handler for the path does.
ROUTES = (preflight_resolve, resolve_open, list_link_matches, list_matches, read_touches)
