"""The short way for a plain post of one event.

Building the framework's request, dependencies and response costs as much as everything that the intake itself does with an event, so a
request that needs none of that is answered here. Whatever is unusual about one (its headers say so) goes the ordinary way, to the route's
handler. Refusals are raised and become problem documents as everywhere.
"""

from typing import Any

from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import json

from penstock.events.model import Receipt
from penstock.events.server import server_event
from penstock.events.service import EventService

_UNUSUAL = frozenset((b"content-encoding", b"transfer-encoding", b"x-service-identity-contract"))


class FastLane(ASGIMiddleware):
    """Around the handler of `POST /api/v1/events`."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        events: EventService = scope["litestar_app"].state.events
        authorization = _key_of_plain_post(scope, events.settings.max_event_bytes)
        if authorization is None:
            await next_app(scope, receive, send)
            return
        caller = await events.accounts.authenticate(authorization)
        body = await _body(receive)
        if body is None:
            return
        content = receipt_json(await events.accept(caller, body, server_event, legacy=False))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": False})


def receipt_json(receipt: Receipt) -> bytes:
    """The same document as `EventRecord`."""
    document: dict[str, Any] = {"status": receipt.status, "eventId": receipt.event_id, "visitorId": receipt.visitor_id}
    if receipt.warnings:
        document["warnings"] = [notice._asdict() for notice in receipt.warnings]
    return json.encode(document)


def _key_of_plain_post(scope: Scope, most_bytes: int) -> str | None:
    """The `Authorization` of a request that has one, with plain JSON of a known, allowed size; None for any other request."""
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


async def _body(receive: Receive) -> bytes | None:
    """None when the client went away before it was all there."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message["body"]
        if not message["more_body"]:
            return body
