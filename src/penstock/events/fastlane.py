"""The short way for a plain post of one event.

Routing a request through the framework and building its request, dependencies and response cost as much as everything that the intake
itself does with an event, so a plain post is answered before the framework sees it. Whatever is unusual about one (its headers say so) and
whatever is refused goes the ordinary way, to the route's handler, which says why.
"""

from collections.abc import Iterable
from typing import Any, cast

from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPRequestEvent, Receive, Scope, Send
from msgspec import json

from penstock.events.model import Receipt
from penstock.events.server import server_event
from penstock.events.service import EventService

PATH = "/api/v1/events"

_UNUSUAL = frozenset((b"content-encoding", b"transfer-encoding", b"x-service-identity-contract"))


class FastLane:
    """Around the application: answers `POST /api/v1/events` where it can, and hands everything else on."""

    def __init__(self, app: ASGIApp, events: EventService) -> None:
        self._app, self._events = app, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = _key_of_plain_post(scope, self._events.settings.max_event_bytes)
        if authorization is None:
            await self._app(scope, receive, send)
            return
        received: list[HTTPRequestEvent] = []
        try:
            caller = await self._events.accounts.authenticate(authorization)
            if not await _receive_all(receive, received):
                return  # the client went away
            receipt = await self._events.accept(caller, b"".join(part["body"] for part in received), server_event, legacy=False)
        except Exception:  # whatever it is, the ordinary way meets it too, and answers it
            await self._app(scope, _again(received, receive), send)
            return
        content = receipt_json(receipt)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": False})


async def _receive_all(receive: Receive, received: list[HTTPRequestEvent]) -> bool:
    """Append the messages of a request's body to `received`. Whether all of them came."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return False
        received.append(message)
        if not received[-1]["more_body"]:
            return True


def _again(received: Iterable[HTTPRequestEvent], receive: Receive) -> Receive:
    """A `receive` that first gives what was received already."""
    messages = iter(received)

    async def replay() -> HTTPReceiveMessage:
        return next(messages, None) or cast("HTTPReceiveMessage", await receive())

    return replay


def receipt_json(receipt: Receipt) -> bytes:
    """The same document as `EventRecord`."""
    document: dict[str, Any] = {"status": receipt.status, "eventId": receipt.event_id, "visitorId": receipt.visitor_id}
    if receipt.warnings:
        document["warnings"] = [notice._asdict() for notice in receipt.warnings]
    return json.encode(document)


def _key_of_plain_post(scope: Any, most_bytes: int) -> str | None:
    """The `Authorization` of a post that has one, with plain JSON of a known, allowed size; None for anything else."""
    if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
        return None
    authorization = None
    is_json = fits = False
    for name, value in scope["headers"]:
        if name == b"authorization":
            if authorization is not None:
                return None
            authorization = value.decode("latin-1")
        elif name == b"content-type":
            is_json = value == b"application/json"
        elif name == b"content-length":
            fits = value.isdigit() and int(value) <= most_bytes
        elif name in _UNUSUAL:
            return None
    return authorization if is_json and fits else None
