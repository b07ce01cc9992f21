"""HTTP of an app's open, for apps; and of what became of opens, for those who make links."""

from typing import Any

from anyio import to_thread
from litestar import HttpMethod, Request, Response, get, post, route
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.events.cors import AnyOrigin, preflight
from penstock.http.answers import answer, listing
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.schema import PageQuery
from penstock.links.resolve_schema import (
    AppOpen,
    AttributionQuery,
    AttributionRecord,
    MatchesQuery,
    MatchRecord,
    ResolvedRecord,
)
from penstock.links.resolver import Resolver
from penstock.settings import Settings

AnyRequest = Request[Any, Any, Any]

_RESOLVE = "/api/mobile/deferred-links/resolve"


@post(
    _RESOLVE,
    status_code=200,
    middleware=[AnyOrigin()],
    opt=described("Report an open of an app", body=AppOpen, answers=ResolvedRecord, open_to_all=True, tag="managed links"),
)
async def resolve_open(request: AnyRequest, resolver: NamedDependency[Resolver], settings: NamedDependency[Settings]) -> Response[bytes]:
    """Which link an open came from, if any. Stores an `install` or `open` event; answered when it is on disk. To ask again is harmless."""
    require_json(request)
    body = await read_bytes(request, max_bytes=settings.max_event_bytes)
    address = request.client.host if request.client else ""
    decision, visitor_id = await resolver.resolve(body, address, request.headers.get("user-agent", ""))
    return answer(ResolvedRecord.of(decision, visitor_id))


@route(_RESOLVE, http_method=[HttpMethod.OPTIONS], middleware=[AnyOrigin()], status_code=204)
async def any_web_view_may_ask() -> Response[None]:
    return preflight()


@get(
    "/api/mobile/deferred-links/{link_id:str}/matches",
    opt=described("Opens that concerned a link", answers=MatchRecord, query=PageQuery, listed=True, tag="managed links"),
)
async def list_link_matches(
    request: AnyRequest, link_id: FromPath[str], caller: NamedDependency[Caller], resolver: NamedDependency[Resolver]
) -> Response[bytes]:
    """Newest first: how each was matched, or why it was not."""
    found = await to_thread.run_sync(resolver.matches_of_link, caller.workspace_id, link_id, read_query(request, PageQuery).asked)
    return listing(found, MatchRecord.of)


@get(
    "/api/mobile/deferred-links/matches",
    opt=described("Opens that looked for a link", answers=MatchRecord, query=MatchesQuery, listed=True, tag="managed links"),
)
async def list_matches(request: AnyRequest, caller: NamedDependency[Caller], resolver: NamedDependency[Resolver]) -> Response[bytes]:
    """Newest first, those included that concerned no link."""
    query = read_query(request, MatchesQuery)
    return listing(await to_thread.run_sync(resolver.matches, caller.workspace_id, query.website_id, query.asked), MatchRecord.of)


@get(
    "/api/mobile/deferred-links/attribution",
    opt=described("What led a visitor into the app", answers=AttributionRecord, query=AttributionQuery, tag="managed links"),
)
async def get_attribution(request: AnyRequest, caller: NamedDependency[Caller], resolver: NamedDependency[Resolver]) -> Response[bytes]:
    """The first and the last link with their UTM, also of a visitor that was merged."""
    query = read_query(request, AttributionQuery)
    touches = await to_thread.run_sync(resolver.touches, caller.workspace_id, query.website_id, query.visitor_id)
    return answer(AttributionRecord.of(touches))


# The framework answers OPTIONS by itself for a path whose first handler does not.
ROUTES = (any_web_view_may_ask, resolve_open, list_link_matches, list_matches, get_attribution)
