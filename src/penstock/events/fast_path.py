"""The fast paths of plain posts: one event of a backend, or what a browser or an app tracks.

Routing a request through the framework and building its request, dependencies and response costs
as much as everything that the intake does with an event. Requests with unusual headers and invalid
ones go to the route, whose handler says what is wrong. A submitted event is never handed over
again: the intake may have stored it, and a second submission could store it twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from litestar.types import ASGIApp, Receive, Scope, Send

from penstock.base.errors import PenstockError
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import WorkspaceId
from penstock.base.user_agent import MAX_CHARS, cached_user_agent
from penstock.events.answers import receipt_json, track_json
from penstock.events.batch import ItemResult
from penstock.events.model import Receipt, Rejected
from penstock.events.quarantine.service import QuarantineService
from penstock.events.server_events import server_event
from penstock.events.service import EventService, TrackedBody, receipt_of, results_for_sender
from penstock.http.bodies import MAX_LENGTH_DIGITS, SMALL_BYTES, is_light
from penstock.http.cors import ANY_ORIGIN, AnyOriginCors
from penstock.http.fast_path import Answer, RawResponse, Respond
from penstock.http.problems import problem_response
from penstock.http.scopes import KeyScope

EVENT_PATH, TRACK_PATH = "/api/v1/events", "/api/track"

_UNUSUAL = frozenset(
    (b"content-encoding", b"transfer-encoding", b"sec-purpose", b"x-service-identity-contract")
)
_JSON = (b"content-type", b"application/json")
_MOST_VALUES = 300
"""Of a body: ten events of a browser have about 150. A refusal, which takes longer, is the route's.
"""

Results = list[Receipt | Rejected]
"""What the intake says of events, in their order."""


class EventFastPath:
    """Answers a plain `POST /api/v1/events` whose key and website are cached."""

    def __init__(self, events: EventService, quarantine: QuarantineService) -> None:
        self._events, self._quarantine = events, quarantine
        self._max_bytes = min(SMALL_BYTES, MAX_EVENT_BYTES)

    def __call__(self, scope: Any) -> Answer | None:
        if not _is_post(scope, EVENT_PATH):
            return None
        head = _plain_head(scope, (b"application/json",), self._max_bytes)
        if head is None or head.authorization is None:
            return None
        scope["path_template"] = EVENT_PATH
        return partial(self._answer, head.authorization)

    def _answer(self, authorization: str, body: bytes, respond: Respond) -> bool:
        if not is_light(body, _MOST_VALUES):
            return False
        try:
            caller = self._events.keys.authenticate_cached(authorization, KeyScope.INGEST)
            if caller is None:
                return False
            event = self._events.read_cached(caller, body, server_event)
            if event is None:
                return False
        except Exception:  # the route meets the same error and answers it
            return False
        refuse = partial(_refusal, self._quarantine, EVENT_PATH, body, caller.workspace_id, {})
        _store(partial(self._events.hand_in, [event]), respond, _accept_event, refuse)
        return True


class TrackFastPath:
    """Answers a plain `POST /api/track` without a key, of one item or a few.

    Website and User-Agent are cached.
    """

    def __init__(self, events: EventService, quarantine: QuarantineService) -> None:
        self._events, self._quarantine = events, quarantine
        self._max_bytes = min(SMALL_BYTES, events.settings.limits.max_body_bytes)

    def __call__(self, scope: Any) -> Answer | None:
        if not _is_post(scope, TRACK_PATH):
            return None
        head = _plain_head(scope, (b"application/json", b"text/plain"), self._max_bytes)
        if head is None or head.authorization is not None:
            return None
        scope["path_template"] = TRACK_PATH
        return partial(self._answer, head.user_agent)

    def _answer(self, user_agent: str, body: bytes, respond: Respond) -> bool:
        parsed = cached_user_agent(user_agent)
        if parsed is None or not is_light(body, _MOST_VALUES):
            return False
        try:
            tracked = self._events.read_tracked_cached(body, parsed)
        except Exception:  # the route meets the same error and answers it
            return False
        if tracked is None:
            return False
        events = list(tracked.batch.events.values())
        accept = partial(self._accept, user_agent, body, tracked)
        refuse = partial(self._refuse, user_agent, body)
        hand_in = partial(self._events.hand_in, events, is_public=True)
        _store(hand_in, respond, accept, refuse)
        return True

    def _accept(
        self, user_agent: str, body: bytes, tracked: TrackedBody, stored: Results
    ) -> ASGIApp:
        if not tracked.is_batch:
            receipt_of(stored)  # raises for a rejected one
        results = results_for_sender(tracked.batch, None, stored)
        response = _accepted_response(track_json(results, self._events.clock()), ANY_ORIGIN)
        if all(result.receipt for result in results):
            return response
        return partial(self._send_partly_rejected, user_agent, body, results, response)

    async def _send_partly_rejected(
        self,
        user_agent: str,
        body: bytes,
        results: Sequence[ItemResult],
        response: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        sender = _sender(user_agent)
        await self._quarantine.record_items(TRACK_PATH, body, results, None, sender)
        await response(scope, receive, send)

    def _refuse(self, user_agent: str, body: bytes, error: Exception) -> ASGIApp:
        sender = _sender(user_agent)
        refusal = _refusal(self._quarantine, TRACK_PATH, body, None, sender, error)
        return partial(AnyOriginCors().handle, next_app=refusal)


def _refusal(
    quarantine: QuarantineService,
    path: str,
    body: bytes,
    workspace_id: WorkspaceId | None,
    sender: Mapping[str, str],
    error: Exception,
) -> ASGIApp:
    """The problem of a body, which is recorded as refused first."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        if isinstance(error, PenstockError):
            await quarantine.record_body(path, body, error, workspace_id, sender)
        await problem_response(error)(scope, receive, send)

    return respond


def _sender(user_agent: str) -> dict[str, str]:
    """What else an item is read with, as the route records it."""
    return {"userAgent": user_agent[:MAX_CHARS]}


def _store(
    hand_in: Callable[[], Awaitable[Results]],
    respond: Respond,
    accept: Callable[[Results], ASGIApp],
    refuse: Callable[[Exception], ASGIApp],
) -> None:
    """Hand events to the intake, and respond when it has stored or refused them.

    accept: the response to the results; may raise. refuse: the response to an error.
    """
    try:
        submitted = asyncio.ensure_future(hand_in())
    except Exception as error:
        respond(refuse(error))
        return

    def finish(_: object) -> None:
        try:
            response = accept(submitted.result())
        except Exception as error:
            response = refuse(error)
        respond(response)

    submitted.add_done_callback(finish)


def _accept_event(stored: Results) -> ASGIApp:
    return _accepted_response(receipt_json(receipt_of(stored)))


def _accepted_response(
    content: bytes, headers: Collection[tuple[bytes, bytes]] = ()
) -> RawResponse:
    length = (b"content-length", b"%d" % len(content))
    return RawResponse(202, (_JSON, length, *headers), content)


class _Head(NamedTuple):
    """What a fast path reads of a head."""

    authorization: str | None
    user_agent: str


def _is_post(scope: Any, path: str) -> bool:
    return scope["path"] == path and scope["method"] == "POST" and not scope["query_string"]


def _plain_head(scope: Any, media_types: Collection[bytes], max_bytes: int) -> _Head | None:
    """The head of a body of such a type and a known, allowed size; None if anything is unusual."""
    authorization = user_agent = None
    has_type = has_allowed_size = False
    for name, value in scope["headers"]:
        if name == b"authorization":
            if authorization is not None:
                return None
            authorization = value.decode("latin-1")
        elif name == b"user-agent":
            if user_agent is not None:
                return None
            user_agent = value.decode("latin-1")
        elif name == b"content-type":
            has_type = value.partition(b";")[0].strip().lower() in media_types
        elif name == b"content-length":
            is_number = value.isdigit() and len(value) <= MAX_LENGTH_DIGITS
            has_allowed_size = is_number and int(value) <= max_bytes
        elif name in _UNUSUAL:
            return None
    return _Head(authorization, user_agent or "") if has_type and has_allowed_size else None
