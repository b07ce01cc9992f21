"""HTTP of events in."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from anyio import to_thread
from litestar import HttpMethod, Request, Response, get, post, route
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.base.errors import Malformed, PenstockError
from penstock.base.ids import WorkspaceId
from penstock.events.batch import EventBatch, Outcome
from penstock.events.cors import AnyOrigin, preflight
from penstock.events.records import BatchRecord, EventRecord, Identify, IdentifyRecord
from penstock.events.refusals_schema import RefusalRecord, RefusalsQuery
from penstock.events.server import ServerEvent, TransactionEvent, server_event, transaction
from penstock.events.service import EventService, ReadEvent
from penstock.events.track import TrackItem
from penstock.http.answers import answer, listing
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described

AnyRequest = Request[Any, Any, Any]

_CONTRACT_HEADER = "x-service-identity-contract"
_LEGACY_CONTRACT = "legacy-user-id"
_DEPRECATED = {"Deprecation": "@1767225600"}  # RFC 9745: since 2026-01-01


def _legacy(request: AnyRequest) -> bool:
    """Whether visitorId is to be read as userId. Source: interface, POST /api/v1/events, rule 5."""
    contract = request.headers.get(_CONTRACT_HEADER)
    if contract in (None, _LEGACY_CONTRACT):
        return contract is not None
    raise Malformed(f"{_CONTRACT_HEADER}: the only value is {_LEGACY_CONTRACT}; leave the header out.", code="unknown_identity_contract")


@asynccontextmanager
async def _noted(request: AnyRequest, events: EventService, body: bytes, workspace_id: WorkspaceId | None = None) -> AsyncIterator[None]:
    """Keep in mind that the body is refused, if it is."""
    try:
        yield
    except PenstockError as error:
        await to_thread.run_sync(events.refusals.note_body, request.url.path, body, error, workspace_id)
        raise


async def _sorted_out(
    request: AnyRequest, events: EventService, body: bytes, outcomes: Sequence[Outcome], workspace_id: WorkspaceId | None = None
) -> BatchRecord:
    """The answer to a batch, after keeping in mind what of it was refused."""
    record = BatchRecord.of(outcomes)
    if record.rejected:
        await to_thread.run_sync(events.refusals.note_items, request.url.path, body, outcomes, workspace_id)
    return record


async def _single(request: AnyRequest, events: EventService, read: ReadEvent) -> Response[bytes]:
    caller = await events.accounts.authenticate(request.headers.get("authorization"))
    legacy = _legacy(request)
    require_json(request)
    body = await read_bytes(request, max_bytes=events.settings.max_event_bytes)
    async with _noted(request, events, body, caller.workspace_id):
        receipt = await events.accept(caller, body, read, legacy=legacy)
    return answer(EventRecord.of(receipt), 202, headers=_DEPRECATED if legacy else None)


@post(
    "/api/v1/events",
    status_code=202,
    opt=described("Send an event", body=ServerEvent, answers=EventRecord, tag="events in"),
)
async def post_event(request: AnyRequest, events: NamedDependency[EventService]) -> Response[bytes]:
    """From a trusted backend, with an API key. Answered when the event is on disk; a repeat of the same eventId changes nothing."""
    return await _single(request, events, server_event)


@post(
    "/api/v1/transactions",
    status_code=202,
    opt=described("Send a transaction", body=TransactionEvent, answers=EventRecord, tag="events in"),
)
async def post_transaction(request: AnyRequest, events: NamedDependency[EventService]) -> Response[bytes]:
    """Like an event, with an amount. A repeat of the same transactionId changes nothing."""
    return await _single(request, events, transaction)


@post(
    "/api/v1/events/batch",
    status_code=202,
    opt=described("Send many events", body=EventBatch, answers=BatchRecord, tag="events in"),
)
async def post_event_batch(request: AnyRequest, events: NamedDependency[EventService]) -> Response[bytes]:
    """Each event is taken or refused by itself; the answer says which, in the order of the batch."""
    caller = await events.accounts.authenticate(request.headers.get("authorization"))
    legacy = _legacy(request)
    require_json(request)
    body = await _large_body(request, events)
    async with _noted(request, events, body, caller.workspace_id):
        outcomes = await events.accept_batch(caller, body, legacy=legacy)
    record = await _sorted_out(request, events, body, outcomes, caller.workspace_id)
    return answer(record, 202, headers=_DEPRECATED if legacy else None)


@post(
    "/api/track",
    status_code=202,
    middleware=[AnyOrigin()],
    opt=described("Track what happens in a browser or an app", body=TrackItem, answers=BatchRecord, open_to_all=True, tag="events in"),
)
async def track(request: AnyRequest, events: NamedDependency[EventService]) -> Response[bytes]:
    """One item, or `{"websiteId", "sentAt", "events": [...]}`. Open to every page; also takes text/plain, as `sendBeacon` sends it."""
    require_json(request, text_plain=True)
    body = await _large_body(request, events)
    async with _noted(request, events, body):
        outcomes = await events.track(body, request.headers.get("user-agent", ""))
    return answer(await _sorted_out(request, events, body, outcomes), 202)


@post(
    "/api/identify",
    status_code=200,
    middleware=[AnyOrigin()],
    opt=described("Say who a visitor is", body=Identify, answers=IdentifyRecord, open_to_all=True, tag="events in"),
)
async def identify(request: AnyRequest, events: NamedDependency[EventService]) -> Response[bytes]:
    """At sign-up or login: from then on the visitor's earlier events and the user's later ones are one timeline."""
    require_json(request, text_plain=True)
    body = await read_bytes(request, max_bytes=events.settings.max_event_bytes)
    async with _noted(request, events, body):
        resolution = await events.identify(body)
    return answer(IdentifyRecord.of(resolution))


@get(
    "/api/events/refused",
    opt=described("What was refused", answers=RefusalRecord, query=RefusalsQuery, listed=True, tag="activity"),
)
async def list_refused(request: AnyRequest, caller: NamedDependency[Caller], events: NamedDependency[EventService]) -> Response[bytes]:
    """Newest first: the last 500 of the workspace that this node refused since its start, with every reason."""
    query, website_id = read_query(request, RefusalsQuery), None
    if query.website_id is not None:
        owned = partial(events.accounts.owned_website, caller.workspace_id, query.website_id)
        website_id = (await to_thread.run_sync(owned)).id
    found = events.refusals.page(caller.workspace_id, website_id, query.asked)
    return listing(found, RefusalRecord.of)


async def _large_body(request: AnyRequest, events: EventService) -> bytes:
    settings = events.settings
    return await read_bytes(request, max_bytes=settings.max_body_bytes, max_inflated_bytes=settings.max_inflated_bytes)


@route(["/api/track", "/api/identify"], http_method=[HttpMethod.OPTIONS], middleware=[AnyOrigin()], status_code=204)
async def any_page_may_ask() -> Response[None]:
    return preflight()


# The framework answers OPTIONS by itself for a path whose first handler does not.
ROUTES = [any_page_may_ask, post_event, post_event_batch, post_transaction, track, identify, list_refused]
