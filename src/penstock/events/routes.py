"""HTTP routes for incoming events."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from litestar import Response

from penstock.accounts.model import Caller
from penstock.base.errors import Malformed, PenstockError
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import WorkspaceId
from penstock.base.user_agent import MAX_CHARS
from penstock.events.answers import batch_json, receipt_json, track_json
from penstock.events.batch import ItemResult
from penstock.events.quarantine import routes as quarantine_routes
from penstock.events.quarantine.model import SentBody
from penstock.events.quarantine.service import QuarantineService
from penstock.events.schema import (
    BatchRecord,
    EventBatch,
    EventRecord,
    Identify,
    IdentifyRecord,
    ServerEvent,
    Tracked,
    TrackRecord,
    TransactionEvent,
)
from penstock.events.server_events import server_event, transaction
from penstock.events.service import EventReader, EventService
from penstock.http.bodies import compute_on, read_bytes, require_json, sender_address
from penstock.http.cors import AnyOriginCors, preflight
from penstock.http.direct import RawResponse, raw_json
from penstock.http.handlers import route
from penstock.http.openapi import Header
from penstock.http.requests import AnyRequest, is_prefetch, path_of
from penstock.http.scopes import KeyScope

_CONTRACT_HEADER = "x-service-identity-contract"
_LEGACY_CONTRACT = "legacy-user-id"
_CONTRACT = Header(
    _CONTRACT_HEADER,
    "For backends that still send their user IDs as `visitorId`: `visitorId` is then read as "
    "`userId`, and the response has a `Deprecation` header. New integrations send `userId`.",
    (_LEGACY_CONTRACT,),
)
_DEPRECATED = ((b"deprecation", b"@1767225600"),)  # Source: RFC 9745. Deprecated since 2026-01-01.
_ANY_ORIGIN = {"middleware": [AnyOriginCors()]}
T = TypeVar("T")

_key_route = partial(
    route,
    "POST",
    status=202,
    scopes=(KeyScope.INGEST,),
    only_key=True,
    headers=(_CONTRACT,),
    tag="events in",
)
_open_route = partial(
    route,
    "POST",
    open_to_all=True,
    optional_key=True,
    tag="events in",
    handler_options=_ANY_ORIGIN,
)


def _is_legacy(request: AnyRequest) -> bool:
    """Whether `visitorId` means `userId`. Source: interface, POST /api/v1/events, rule 5."""
    contract = request.headers.get(_CONTRACT_HEADER)
    contract = None if contract is None else contract.strip()
    if contract in (None, _LEGACY_CONTRACT):
        return contract is not None
    raise Malformed(
        f"{_CONTRACT_HEADER}: the only value is {_LEGACY_CONTRACT}; leave the header out.",
        code="unknown_identity_contract",
    )


_BROWSER_SCHEMES = ("basic", "digest", "negotiate", "ntlm")


async def _caller_of_optional_key(request: AnyRequest, events: EventService) -> Caller | None:
    """Return the caller of an open route; None if no key was sent.

    Raises `Unauthorized` for a wrong key. Ignores credentials that browsers add automatically for a
    proxy in front of the page.
    """
    authorization = request.headers.get("authorization")
    if authorization is None or authorization.split(" ")[0].lower() in _BROWSER_SCHEMES:
        return None
    return await events.keys.authenticate(authorization, KeyScope.INGEST)


def _workspace_of(caller: Caller | None) -> WorkspaceId | None:
    return caller.workspace_id if caller else None


async def _watch(quarantine: QuarantineService, body: SentBody, work: Awaitable[T]) -> T:
    """Await the work on the body. If the work raises an error, record the body as refused."""
    try:
        return await work
    except PenstockError as error:
        await quarantine.record_body(body, error)
        raise


async def _answer_batch(
    quarantine: QuarantineService,
    body: SentBody,
    results: Sequence[ItemResult],
    write: Callable[[Sequence[ItemResult]], bytes] = batch_json,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> RawResponse:
    """Return the response to a batch. Records its rejected items."""
    if any(result.receipt is None for result in results):
        await quarantine.record_items(body, results)
    content = await compute_on(body.content, write, results, items=len(results))
    return raw_json(content, 202, headers)


async def _post_single(
    request: AnyRequest,
    events: EventService,
    quarantine: QuarantineService,
    reader: EventReader,
) -> RawResponse:
    caller = await events.keys.authenticate(request.headers.get("authorization"), KeyScope.INGEST)
    legacy = _is_legacy(request)
    require_json(request)
    body = await read_bytes(request, max_bytes=MAX_EVENT_BYTES)
    sent = SentBody(path_of(request), body, caller.workspace_id, {"legacy": legacy})
    work = events.accept(caller, body, reader, legacy=legacy)
    receipt = await _watch(quarantine, sent, work)
    return raw_json(receipt_json(receipt), 202, _DEPRECATED if legacy else ())


@_key_route("/api/v1/events", "Send an event", body=ServerEvent, answers=EventRecord)
async def post_event(
    request: AnyRequest, events: EventService, quarantine: QuarantineService
) -> RawResponse:
    """Send an event from a trusted backend, with an API key.

    The response is sent once the event is on disk. Sending the same `eventId` again changes
    nothing.
    """
    return await _post_single(request, events, quarantine, server_event)


@_key_route(
    "/api/v1/transactions", "Send a transaction", body=TransactionEvent, answers=EventRecord
)
async def post_transaction(
    request: AnyRequest, events: EventService, quarantine: QuarantineService
) -> RawResponse:
    """Send an event with an amount. Sending the same `transactionId` again changes nothing."""
    return await _post_single(request, events, quarantine, transaction)


@_key_route("/api/v1/events/batch", "Send many events", body=EventBatch, answers=BatchRecord)
async def post_event_batch(
    request: AnyRequest, events: EventService, quarantine: QuarantineService
) -> RawResponse:
    """Each event is accepted or rejected independently. Results are in the order of the batch."""
    caller = await events.keys.authenticate(request.headers.get("authorization"), KeyScope.INGEST)
    legacy = _is_legacy(request)
    require_json(request)
    body = await _read_large_body(request, events)
    sent = SentBody(path_of(request), body, caller.workspace_id, {"legacy": legacy})
    results = await _watch(quarantine, sent, events.accept_batch(caller, body, legacy=legacy))
    headers = _DEPRECATED if legacy else ()
    return await _answer_batch(quarantine, sent, results, headers=headers)


@_open_route(
    "/api/track",
    "Track page views and events in a browser or an app",
    status=202,
    body=Tracked,
    answers=TrackRecord,
)
async def track(
    request: AnyRequest, events: EventService, quarantine: QuarantineService
) -> RawResponse:
    """Send one item, or `{"websiteId", "sentAt", "clockOffset", "events": [...]}`.

    Any page may call this route without a key; if a key is sent, it must be valid for the website.
    `text/plain` is accepted too, because `sendBeacon` sends it. Requests from prefetched pages
    (`Sec-Purpose: prefetch`) store nothing and return no results.
    """
    caller = await _caller_of_optional_key(request, events)
    require_json(request, text_plain=True)
    body = await _read_large_body(request, events)
    if is_prefetch(request):
        return raw_json(track_json([], events.clock()), 202)
    user_agent = request.headers.get("user-agent", "")
    sender = {"userAgent": user_agent[:MAX_CHARS]}
    sent = SentBody(path_of(request), body, _workspace_of(caller), sender)
    work = events.track(body, user_agent, sender_address(request), caller)
    results = await _watch(quarantine, sent, work)
    write = partial(track_json, now_ms=events.clock())
    return await _answer_batch(quarantine, sent, results, write)


@_open_route(
    "/api/identify", "Link a visitor to a user", status=200, body=Identify, answers=IdentifyRecord
)
async def identify(
    request: AnyRequest, events: EventService, quarantine: QuarantineService
) -> RawResponse:
    """Call this at sign-up and login. The visitor's earlier events join the user's timeline.

    The route needs no key; if a key is sent, it must be valid for the website. Without a key, the
    response only repeats the request's values, whatever Penstock knows about the visitor or the
    user.
    """
    caller = await _caller_of_optional_key(request, events)
    require_json(request, text_plain=True)
    body = await read_bytes(request, max_bytes=MAX_EVENT_BYTES)
    sent = SentBody(path_of(request), body, _workspace_of(caller), {})
    resolution = await _watch(quarantine, sent, events.identify(body, caller))
    return raw_json(IdentifyRecord.of(resolution).model_dump_json().encode())


async def _read_large_body(request: AnyRequest, events: EventService) -> bytes:
    limits = events.settings.limits
    return await read_bytes(
        request,
        max_bytes=limits.max_body_bytes,
        max_inflated_bytes=limits.max_inflated_bytes,
    )


@route("OPTIONS", ["/api/track", "/api/identify"], status=204, handler_options=_ANY_ORIGIN)
async def answer_preflight() -> Response[None]:
    return preflight()


DIRECT_ROUTES = (post_event, post_event_batch, post_transaction, track, identify)
ROUTES = (
    # This must come first. Otherwise the framework would answer OPTIONS requests itself.
    answer_preflight,
    *DIRECT_ROUTES,
    *quarantine_routes.ROUTES,
)
