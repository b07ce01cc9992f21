"""HTTP of events in."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from litestar import HttpMethod, Response, post, route
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.base.errors import Malformed, PenstockError
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import WorkspaceId
from penstock.base.user_agent import MAX_CHARS
from penstock.events.answers import batch_json, receipt_json, track_json
from penstock.events.batch import ItemResult
from penstock.events.quarantine import routes as quarantine_routes
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
from penstock.events.server_events import (
    server_event,
    transaction,
)
from penstock.events.service import EventReader, EventService
from penstock.http.answers import answer, json_answer
from penstock.http.bodies import compute_on, read_bytes, require_json, sender_address
from penstock.http.cors import AnyOriginCors, preflight
from penstock.http.openapi import Header, described
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
_DEPRECATED = {"Deprecation": "@1767225600"}  # RFC 9745: since 2026-01-01


def _is_legacy(request: AnyRequest) -> bool:
    """Whether visitorId means userId. Source: interface, POST /api/v1/events, rule 5."""
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
    """The caller of an open route: None without a key, `Unauthorized` for a wrong one.

    Credentials that browsers add by themselves, for a proxy in front of the page, are no key.
    """
    authorization = request.headers.get("authorization")
    if authorization is None or authorization.split(" ")[0].lower() in _BROWSER_SCHEMES:
        return None
    return await events.keys.authenticate(authorization, KeyScope.INGEST)


def _workspace_of(caller: Caller | None) -> WorkspaceId | None:
    return caller.workspace_id if caller else None


class _Refusals(NamedTuple):
    """Records what of one body is refused. sender: what else its items are read with."""

    quarantine: QuarantineService
    route: str
    body: bytes
    workspace_id: WorkspaceId | None
    sender: Mapping[str, Any]

    @asynccontextmanager
    async def recorded(self) -> AsyncIterator[None]:
        """Records the body as refused when its validation fails."""
        try:
            yield
        except PenstockError as error:
            await self.quarantine.record_body(
                self.route, self.body, error, self.workspace_id, self.sender
            )
            raise

    async def answer_batch(
        self,
        results: Sequence[ItemResult],
        write: Callable[[Sequence[ItemResult]], bytes] = batch_json,
        headers: dict[str, str] | None = None,
    ) -> Response[bytes]:
        """The answer to a batch. Records its refused items."""
        if any(result.receipt is None for result in results):
            await self.quarantine.record_items(
                self.route, self.body, results, self.workspace_id, self.sender
            )
        content = await compute_on(self.body, write, results, items=len(results))
        return json_answer(content, 202, headers)


async def _post_single(
    request: AnyRequest,
    events: EventService,
    quarantine: QuarantineService,
    reader: EventReader,
) -> Response[bytes]:
    caller = await events.keys.authenticate(request.headers.get("authorization"), KeyScope.INGEST)
    legacy = _is_legacy(request)
    require_json(request)
    body = await read_bytes(request, max_bytes=MAX_EVENT_BYTES)
    sender = {"legacy": legacy}
    refusals = _Refusals(quarantine, path_of(request), body, caller.workspace_id, sender)
    async with refusals.recorded():
        event = await events.read_event(caller, body, reader, legacy=legacy)
        receipt = await events.submit(event)
    return json_answer(receipt_json(receipt), 202, _DEPRECATED if legacy else None)


@post(
    "/api/v1/events",
    status_code=202,
    opt=described(
        "Send an event",
        body=ServerEvent,
        answers=EventRecord,
        scopes=(KeyScope.INGEST,),
        only_key=True,
        headers=(_CONTRACT,),
        tag="events in",
    ),
)
async def post_event(
    request: AnyRequest,
    events: NamedDependency[EventService],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    """From a trusted backend, with an API key. The answer comes when the event is on disk.

    A repeat of the same `eventId` changes nothing.
    """
    return await _post_single(request, events, quarantine, server_event)


@post(
    "/api/v1/transactions",
    status_code=202,
    opt=described(
        "Send a transaction",
        body=TransactionEvent,
        answers=EventRecord,
        scopes=(KeyScope.INGEST,),
        only_key=True,
        headers=(_CONTRACT,),
        tag="events in",
    ),
)
async def post_transaction(
    request: AnyRequest,
    events: NamedDependency[EventService],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    """Like an event, with an amount. A repeat of the same `transactionId` changes nothing."""
    return await _post_single(request, events, quarantine, transaction)


@post(
    "/api/v1/events/batch",
    status_code=202,
    opt=described(
        "Send many events",
        body=EventBatch,
        answers=BatchRecord,
        scopes=(KeyScope.INGEST,),
        only_key=True,
        headers=(_CONTRACT,),
        tag="events in",
    ),
)
async def post_event_batch(
    request: AnyRequest,
    events: NamedDependency[EventService],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    """Each event is accepted or rejected independently. Results have the order of the batch."""
    caller = await events.keys.authenticate(request.headers.get("authorization"), KeyScope.INGEST)
    legacy = _is_legacy(request)
    require_json(request)
    body = await _read_large_body(request, events)
    sender = {"legacy": legacy}
    refusals = _Refusals(quarantine, path_of(request), body, caller.workspace_id, sender)
    async with refusals.recorded():
        results = await events.accept_batch(caller, body, legacy=legacy)
    return await refusals.answer_batch(results, headers=_DEPRECATED if legacy else None)


@post(
    "/api/track",
    status_code=202,
    middleware=[AnyOriginCors()],
    opt=described(
        "Track page views and events in a browser or an app",
        body=Tracked,
        answers=TrackRecord,
        open_to_all=True,
        optional_key=True,
        tag="events in",
    ),
)
async def track(
    request: AnyRequest,
    events: NamedDependency[EventService],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    """One item, or `{"websiteId", "sentAt", "clockOffset", "events": [...]}`.

    Any page may call it, without a key; a key that is sent must be valid for the website. It also
    accepts text/plain, which `sendBeacon` sends. A request for a page that nobody has seen yet
    (`Sec-Purpose: prefetch`) stores nothing and has no results.
    """
    caller = await _caller_of_optional_key(request, events)
    require_json(request, text_plain=True)
    body = await _read_large_body(request, events)
    if is_prefetch(request):
        return json_answer(track_json([], events.clock()), 202)
    user_agent = request.headers.get("user-agent", "")
    sender = {"userAgent": user_agent[:MAX_CHARS]}
    refusals = _Refusals(quarantine, path_of(request), body, _workspace_of(caller), sender)
    async with refusals.recorded():
        results = await events.track(body, user_agent, sender_address(request), caller)
    return await refusals.answer_batch(results, partial(track_json, now_ms=events.clock()))


@post(
    "/api/identify",
    status_code=200,
    middleware=[AnyOriginCors()],
    opt=described(
        "Link a visitor to a user",
        body=Identify,
        answers=IdentifyRecord,
        open_to_all=True,
        optional_key=True,
        tag="events in",
    ),
)
async def identify(
    request: AnyRequest,
    events: NamedDependency[EventService],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    """Call it at sign-up and login: the visitor's earlier events join the user's timeline.

    It needs no key; a key that is sent must be valid for the website. Without a key, the answer
    repeats the request's values, whatever Penstock knows of the visitor or the user.
    """
    caller = await _caller_of_optional_key(request, events)
    require_json(request, text_plain=True)
    body = await read_bytes(request, max_bytes=MAX_EVENT_BYTES)
    refusals = _Refusals(quarantine, path_of(request), body, _workspace_of(caller), {})
    async with refusals.recorded():
        resolution = await events.identify(body, caller)
    return answer(IdentifyRecord.of(resolution))


async def _read_large_body(request: AnyRequest, events: EventService) -> bytes:
    limits = events.settings.limits
    return await read_bytes(
        request,
        max_bytes=limits.max_body_bytes,
        max_inflated_bytes=limits.max_inflated_bytes,
    )


@route(
    ["/api/track", "/api/identify"],
    http_method=[HttpMethod.OPTIONS],
    middleware=[AnyOriginCors()],
    status_code=204,
)
async def answer_preflight() -> Response[None]:
    return preflight()


ROUTES = (
    answer_preflight,  # first, or the framework would answer OPTIONS of these paths
    post_event,
    post_event_batch,
    post_transaction,
    track,
    identify,
    *quarantine_routes.ROUTES,
)
