"""HTTP routes for attribution: apps report opens, and link owners read the audit list."""

from anyio import to_thread
from litestar import HttpMethod, Response, get, post, route
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.http.answers import answer, answer_list
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.cors import AnyOriginCors, preflight
from penstock.http.openapi import described
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
from penstock.settings import Settings

_RESOLVE = "/api/mobile/deferred-links/resolve"


@post(
    _RESOLVE,
    status_code=200,
    middleware=[AnyOriginCors()],
    opt=described(
        "Report an open of an app",
        body=AppOpen,
        answers=ResolvedRecord,
        open_to_all=True,
        tag="managed links",
    ),
)
async def resolve_open(
    request: AnyRequest,
    attribution: NamedDependency[AttributionService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Finds the link that an open came from, if any, and stores an `install` or `open` event.

    The event is on disk before the response is sent. Requests are safe to repeat.
    """
    require_json(request)
    body = await read_bytes(request, max_bytes=MAX_EVENT_BYTES)
    decision, visitor_id = await attribution.resolve(
        body, address_of(request), request.headers.get("user-agent", "")
    )
    return answer(ResolvedRecord.from_decision(decision, visitor_id))


@route(_RESOLVE, http_method=[HttpMethod.OPTIONS], middleware=[AnyOriginCors()], status_code=204)
async def preflight_resolve() -> Response[None]:
    return preflight()


@get(
    "/api/mobile/deferred-links/{link_id:str}/matches",
    opt=described(
        "App opens that involved a link",
        answers=MatchRecord,
        query=PageQuery,
        listed=True,
        tag="managed links",
    ),
)
async def list_link_matches(
    request: AnyRequest,
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    attribution: NamedDependency[AttributionService],
) -> Response[bytes]:
    """Lists opens, newest first, with the method of each match or the reason why there is no
    match.
    """
    page = await to_thread.run_sync(
        attribution.matches_of_link,
        caller.workspace_id,
        link_id,
        read_query(request, PageQuery).pagination,
    )
    return await answer_list(page, MatchRecord.from_match)


@get(
    "/api/mobile/deferred-links/matches",
    opt=described(
        "App opens that asked for a link",
        answers=MatchRecord,
        query=MatchesQuery,
        listed=True,
        tag="managed links",
    ),
)
async def list_matches(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    attribution: NamedDependency[AttributionService],
) -> Response[bytes]:
    """Lists opens, newest first, including opens that did not involve a link."""
    query = read_query(request, MatchesQuery)
    return await answer_list(
        await to_thread.run_sync(
            attribution.matches, caller.workspace_id, query.website_id, query.pagination
        ),
        MatchRecord.from_match,
    )


@get(
    "/api/mobile/deferred-links/attribution",
    opt=described(
        "First and last touch of a visitor",
        answers=TouchesRecord,
        query=TouchesQuery,
        tag="managed links",
    ),
)
async def read_touches(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    attribution: NamedDependency[AttributionService],
) -> Response[bytes]:
    """Returns the visitor's first and last link with their UTM parameters. Includes merged
    visitors.
    """
    query = read_query(request, TouchesQuery)
    touches = await to_thread.run_sync(
        attribution.touches, caller.workspace_id, query.website_id, query.visitor_id
    )
    return answer(TouchesRecord.from_touches(touches))


# Litestar answers OPTIONS itself, unless the first handler for the path does.
ROUTES = (preflight_resolve, resolve_open, list_link_matches, list_matches, read_touches)
