"""HTTP routes for the tracking protocol.

Clients expect status 200 for stored calls, a `code` and a `message` in errors, and status 429 if
they should retry later. CORS allows any website to call these routes.
"""

from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from typing import Any

from litestar import Response

from penstock.base.errors import NotFound, PenstockError, RateLimited, StoreUnavailable, Unavailable
from penstock.http.answers import answer
from penstock.http.bodies import compute_on, read_bytes, sender_address
from penstock.http.cors import AnyOriginCors, preflight
from penstock.http.handlers import route
from penstock.http.problems import (
    forget_trace,
    on_penstock_error,
    on_store_unavailable,
    problem,
)
from penstock.http.requests import AnyRequest, is_prefetch, path_of
from penstock.segment.model import Post
from penstock.segment.schema import SegmentCalls, SegmentRecord
from penstock.segment.service import SegmentService
from penstock.settings import Settings

_TYPES = ("track", "page", "screen", "identify", "alias", "group", "batch")
_CALLS: Mapping[str, str] = {
    **{name: name for name in _TYPES},
    **{name[0]: name for name in _TYPES},
    "import": "import",
}
"""Call types by the last part of the URL path. Browser clients use single letters."""

_METRICS = ("m", "metrics")
_PROJECT_SETTINGS = ("/v1/projects/{write_key:str}/settings", "/projects/{write_key:str}/settings")
"""Paths for project settings. Mobile clients use the second one."""

_OVERLOADED_S = 5
_HEADERS = (
    *("Authorization", "AnonymousId", "Content-Type", "Content-Encoding", "SentAt"),
    *("X-Retry-Count", "Rsa-Recovered", "Rsa-Retry-Attempt", "Rsa-Retry-Reason"),
    *("Rsa-Since-Last-Attempt", "Rsa-Since-First-Attempt", "*"),
)
"""Headers that clients send. `*` allows any other header that later versions may add."""


def _on_error(request: AnyRequest, error: PenstockError) -> Response[bytes]:
    """Build a problem document that also contains `message`.

    Returns 429 when overloaded, because clients then wait without counting an attempt.
    """
    if isinstance(error, StoreUnavailable):
        return on_store_unavailable(request, error, message=error.detail)
    if not isinstance(error, Unavailable):
        return on_penstock_error(request, error, message=error.detail)
    forget_trace(error)
    response = problem(
        request,
        RateLimited.status,
        error.code,
        RateLimited.title,
        error.detail,
        message=error.detail,
    )
    response.headers["Retry-After"] = str(max(error.retry_after_s or 0, _OVERLOADED_S))
    return response


_ERRORS: dict[int | type[Exception], Any] = {
    PenstockError: _on_error,
    StoreUnavailable: _on_error,
}

_open_route = partial(
    route,
    open_to_all=True,
    tag="events in",
    handler_options={"middleware": [AnyOriginCors()], "exception_handlers": _ERRORS},
)


def _key_of(request: AnyRequest) -> str | None:
    """Return the write key from the Basic authentication user name or the query parameter
    `writeKey`.

    Returns None if the request has neither.
    """
    return _basic_user(request) or request.query_params.get("writeKey")


def _basic_user(request: AnyRequest) -> str | None:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return b64decode(encoded.strip(), validate=True).decode().partition(":")[0] or None
    except ValueError:  # not base64, or not UTF-8
        return None


async def _store(
    request: AnyRequest, segment: SegmentService, settings: Settings, call_type: str
) -> Response[bytes]:
    key = _key_of(request)
    if key is not None:
        await segment.sender(key)  # reject unknown keys before reading the body
    body = await read_bytes(
        request,
        max_bytes=settings.limits.max_body_bytes,
        max_inflated_bytes=settings.limits.max_inflated_bytes,
    )
    if is_prefetch(request):
        return answer(SegmentRecord())
    user_agent = request.headers.get("user-agent", "")
    post = Post(call_type, path_of(request), body, sender_address(request), key, user_agent)
    results = await segment.store(post)
    return await compute_on(
        body, lambda: answer(SegmentRecord.from_results(results)), items=len(results)
    )


@_open_route(
    "POST",
    "/v1/{call:str}",
    "Segment and RudderStack: send calls",
    status=200,
    body=SegmentCalls,
    answers=SegmentRecord,
)
async def post_calls(
    request: AnyRequest, segment: SegmentService, settings: Settings, call: str
) -> Response[bytes]:
    """Stores calls. `call` is track, page, screen, identify, alias, group, batch or import.

    Single calls also accept the first letter of the type. Send the write key as the Basic
    authentication user name, or as `writeKey` in the body. The write key is a website's ID, or an
    API key that is limited to one website and to the scope `ingest`.
    """
    if call in _METRICS:  # Clients report their own metrics. Accept them, but store nothing.
        return answer(SegmentRecord())
    if call not in _CALLS:
        raise NotFound("There is nothing at this URL.")
    return await _store(request, segment, settings, _CALLS[call])


@_open_route(
    "POST",
    "/beacon/v1/batch",
    "RudderStack: send a batch by sendBeacon",
    status=200,
    body=SegmentCalls,
    answers=SegmentRecord,
)
async def post_beacon(
    request: AnyRequest, segment: SegmentService, settings: Settings
) -> Response[bytes]:
    """Works like `/v1/batch`, but accepts the write key as the query parameter `writeKey`."""
    return await _store(request, segment, settings, "batch")


@_open_route("GET", list(_PROJECT_SETTINGS), "Segment: the settings of a client")
async def read_project_settings(
    request: AnyRequest, segment: SegmentService, settings: Settings, write_key: str
) -> Response[bytes]:
    """Tells clients where to send events. The settings contain no other destinations."""
    await segment.sender(write_key)
    protocol, _, host = _base_url(request, settings).partition("://")
    document: dict[str, Any] = {
        # With this integration alone, clients load no code from other hosts.
        "integrations": {
            "Segment.io": {"apiKey": write_key, "apiHost": f"{host}/v1", "protocol": protocol}
        },
        "plan": {},
        "edgeFunction": {},
        "enabledMiddleware": {},
        "remotePlugins": [],
        "metrics": {"sampleRate": 0},
    }
    return answer(document)


@_open_route("GET", "/sourceConfig", "RudderStack: the settings of a client")
async def read_source_config(request: AnyRequest, segment: SegmentService) -> Response[bytes]:
    """Returns the source configuration.

    Send the write key as the Basic authentication user name, or as the parameter `writeKey`.
    """
    write_key = _key_of(request)
    await segment.sender(write_key)
    source: dict[str, Any] = {
        "id": write_key,
        "writeKey": write_key,
        "name": "Penstock",
        "workspaceId": write_key,
        "enabled": True,
        "config": {},
        "destinations": [],
    }
    return answer({"source": source})


def _base_url(request: AnyRequest, settings: Settings) -> str:
    """Return the configured public URL, or else the URL that the client used."""
    host = request.headers.get("host")
    if settings.public_url is not None or not host:
        return settings.base_url
    return f"{request.scope['scheme']}://{host}"


_preflight_route = partial(
    route, "OPTIONS", status=204, handler_options={"middleware": [AnyOriginCors()]}
)


@_preflight_route(["/v1/{call:str}", "/beacon/v1/batch"])
async def answer_preflight_of_post() -> Response[None]:
    return preflight(headers=_HEADERS)


@_preflight_route([*_PROJECT_SETTINGS, "/sourceConfig"])
async def answer_preflight_of_get() -> Response[None]:
    return preflight(("GET", "HEAD"), _HEADERS)


ROUTES = (
    # This must come first. Otherwise the framework answers OPTIONS requests itself.
    answer_preflight_of_post,
    answer_preflight_of_get,
    post_calls,
    post_beacon,
    read_project_settings,
    read_source_config,
)
