"""Fast paths: plain requests that are answered without the framework and without a task.

The framework builds a request, dependencies and a response around each handler; a task and its
messages cost as much again. A fast path answers what it recognises as plain, from caches alone, and
leaves every other request to its route, which has the same rules.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send


@dataclass(slots=True)
class RawResponse:
    """An ASGI response, sent unchanged. headers: with the length of the body."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


Respond = Callable[[ASGIApp], None]
"""Sends a response: a `RawResponse` at once, any other in a task."""

Answer = Callable[[bytes, Respond], bool]
"""Answers a request, whose body is passed, now or later. False: the route shall, nothing happened.

It never blocks and never raises.
"""

FastPath = Callable[[Any], Answer | None]
"""What answers the request of an ASGI scope; None for requests that are not plain.

It sets `path_template` of the scope, as the framework does.
"""
