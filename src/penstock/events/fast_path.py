"""The fast path for a plain post of one event.

Routing a request through the framework and building its request, dependencies and response costs
as much as everything that the intake does with an event, so a plain post is answered before the
framework sees it. Requests with unusual headers and invalid ones take the ordinary path: the
route's handler says what is wrong. A submitted event is never handed over again: the intake may
have stored it, and a second submission could store it twice.
"""

from collections.abc import Iterable
from typing import Any, cast

from litestar import Request
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPRequestEvent, Receive, Scope, Send
from msgspec import json

from penstock.base.errors import PenstockError
from penstock.events.model import Receipt
from penstock.events.quarantine.service import QuarantineService
from penstock.events.server_events import server_event
from penstock.events.service import EventService
from penstock.http.bodies import MAX_LENGTH_DIGITS, SMALL_BYTES
from penstock.http.problems import problem_of
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope

PATH = "/api/v1/events"

_UNUSUAL = frozenset((b"content-encoding", b"transfer-encoding", b"x-service-identity-contract"))


class FastPath:
    """Wraps the application: answers a plain `POST /api/v1/events`, passes on everything else."""

    def __init__(self, app: ASGIApp, events: EventService, quarantine: QuarantineService) -> None:
        self._app, self._events, self._quarantine = app, events, quarantine
        self._max_bytes = min(SMALL_BYTES, events.settings.max_event_bytes)

    # No coroutine of its own, as every request passes here.
    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        authorization = _key_of_plain_post(scope, self._max_bytes)
        if authorization is None:
            return self._app(scope, receive, send)
        return self._answer(authorization, scope, receive, send)

    async def _answer(self, authorization: str, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path_template"] = PATH
        messages: list[HTTPRequestEvent] = []
        try:
            caller = await self._events.keys.authenticate(authorization, KeyScope.INGEST)
            if not await _receive_all(receive, messages):
                return  # the client disconnected
            body = messages[0]["body"] if len(messages) == 1 else _joined(messages)
            event = await self._events.read_event(caller, body, server_event, legacy=False)
        except Exception:  # the ordinary path meets the same error and answers it
            await self._app(scope, _replay(messages, receive), send)
            return
        try:
            receipt = await self._events.submit(event)
        except Exception as error:
            if isinstance(error, PenstockError):
                await self._quarantine.record_body(PATH, body, error, caller.workspace_id, {})
            request: AnyRequest = Request(scope)
            response = problem_of(request, error)
            await response.to_asgi_response(app=None, request=request)(scope, receive, send)
            return
        content = receipt_json(receipt)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
        ]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": False})


def _joined(messages: Iterable[HTTPRequestEvent]) -> bytes:
    return b"".join(message["body"] for message in messages)


async def _receive_all(receive: Receive, messages: list[HTTPRequestEvent]) -> bool:
    """Append the messages of a request's body. False when the client disconnected."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return False
        messages.append(message)
        if not messages[-1]["more_body"]:
            return True


def _replay(messages: Iterable[HTTPRequestEvent], receive: Receive) -> Receive:
    """A `receive` that returns the messages again before it continues."""
    remaining = iter(messages)

    async def replay() -> HTTPReceiveMessage:
        return next(remaining, None) or cast("HTTPReceiveMessage", await receive())

    return replay


def receipt_json(receipt: Receipt) -> bytes:
    """The same document as `EventRecord`."""
    document: dict[str, Any] = {
        "status": receipt.status,
        "eventId": receipt.event_id,
        "visitorId": receipt.visitor_id,
    }
    if receipt.warnings:
        document["warnings"] = [notice._asdict() for notice in receipt.warnings]
    return json.encode(document)


def _key_of_plain_post(scope: Any, max_bytes: int) -> str | None:
    """The `Authorization` of a post of plain JSON with a known, allowed size; else None."""
    if (
        scope["type"] != "http"
        or scope["path"] != PATH
        or scope["method"] != "POST"
        or scope["query_string"]
    ):
        return None
    authorization = None
    is_json = has_allowed_size = False
    for name, value in scope["headers"]:
        if name == b"authorization":
            if authorization is not None:
                return None
            authorization = value.decode("latin-1")
        elif name == b"content-type":
            is_json = value == b"application/json"
        elif name == b"content-length":
            is_number = value.isdigit() and len(value) <= MAX_LENGTH_DIGITS
            has_allowed_size = is_number and int(value) <= max_bytes
        elif name in _UNUSUAL:
            return None
    return authorization if is_json and has_allowed_size else None
