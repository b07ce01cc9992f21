"""The fast path of a plain post of one event.

Routing a request through the framework and building its request, dependencies and response costs
as much as everything that the intake does with an event. Requests with unusual headers and invalid
ones go to the route, whose handler says what is wrong. A submitted event is never handed over
again: the intake may have stored it, and a second submission could store it twice.
"""

import asyncio
from functools import partial
from typing import Any

from litestar.types import Receive, Scope, Send
from msgspec import json

from penstock.accounts.model import Caller
from penstock.base.errors import PenstockError
from penstock.events.model import Receipt, Rejected
from penstock.events.quarantine.service import QuarantineService
from penstock.events.server_events import server_event
from penstock.events.service import EventService, receipt_of
from penstock.http.bodies import MAX_LENGTH_DIGITS, SMALL_BYTES
from penstock.http.fast_path import Answer, RawResponse, Respond
from penstock.http.problems import problem_response
from penstock.http.scopes import KeyScope

PATH = "/api/v1/events"

_UNUSUAL = frozenset((b"content-encoding", b"transfer-encoding", b"x-service-identity-contract"))
_JSON = (b"content-type", b"application/json")


class EventFastPath:
    """Answers a plain `POST /api/v1/events` whose key and website are cached."""

    def __init__(self, events: EventService, quarantine: QuarantineService) -> None:
        self._events, self._quarantine = events, quarantine
        self._max_bytes = min(SMALL_BYTES, events.settings.max_event_bytes)

    def __call__(self, scope: Any) -> Answer | None:
        authorization = _key_of_plain_post(scope, self._max_bytes)
        if authorization is None:
            return None
        scope["path_template"] = PATH
        return partial(self._answer, authorization)

    def _answer(self, authorization: str, body: bytes, respond: Respond) -> bool:
        try:
            caller = self._events.keys.authenticate_cached(authorization, KeyScope.INGEST)
            if caller is None:
                return False
            event = self._events.read_cached(caller, body, server_event)
            if event is None:
                return False
        except Exception:  # the route meets the same error and answers it
            return False
        try:
            submitted = asyncio.ensure_future(self._events.hand_in(event))
        except PenstockError as error:
            respond(partial(self._refuse, caller, body, error))
        else:
            submitted.add_done_callback(partial(self._respond, caller, body, respond))
        return True

    def _respond(
        self,
        caller: Caller,
        body: bytes,
        respond: Respond,
        submitted: asyncio.Future[list[Receipt | Rejected]],
    ) -> None:
        try:
            content = receipt_json(receipt_of(submitted.result()))
        except Exception as error:
            respond(partial(self._refuse, caller, body, error))
            return
        length = (b"content-length", b"%d" % len(content))
        respond(RawResponse(202, (_JSON, length), content))

    async def _refuse(
        self,
        caller: Caller,
        body: bytes,
        error: Exception,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if isinstance(error, PenstockError):
            await self._quarantine.record_body(PATH, body, error, caller.workspace_id, {})
        await problem_response(error)(scope, receive, send)


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
    if scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
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
