"""Fast paths: plain requests that are answered without the framework and without a task.

The framework builds a request, dependencies and a response around each handler; a task and its
messages cost as much again. A fast path recognises plain requests and answers them from caches
alone. All other requests go to their routes, which follow the same rules.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send


@dataclass(slots=True)
class RawResponse:
    """An ASGI response, sent unchanged. headers: must include the length of the body."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


Respond = Callable[[ASGIApp], None]
"""Sends a response: a `RawResponse` at once, any other response in a task."""

Answer = Callable[[bytes, Respond], bool]
"""Answers a request with this body, now or later. False: not handled; use the route.

It never blocks and never raises.
"""

FastPath = Callable[[Any], Answer | None]
"""Returns the function that answers the request of an ASGI scope; None if it is not plain.

Like the framework, it sets the scope's `path_template`.
"""
