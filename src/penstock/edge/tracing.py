"""A span around each request, if tracing is on."""

from typing import Any

from litestar.types import ASGIApp, Message, Receive, Send
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode

from penstock.base.tracing import request_span

_PROPAGATED = frozenset((b"traceparent", b"tracestate"))


class TracedApp:
    """ASGI middleware. Spans contain the method, route, status and request ID, but no client
    input.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = extract(
            {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in scope["headers"]
                if name in _PROPAGATED
            }
        )
        method = scope["method"]
        with request_span(method, parent, SpanKind.SERVER) as span:

            async def send_with_status(message: Message) -> None:
                if span is not None and message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            try:
                await self._app(scope, receive, send_with_status)
            finally:
                if span is not None:
                    span.set_attribute("http.request.method", method)
                    if route := scope.get("path_template"):
                        span.set_attribute("http.route", route)
                        span.update_name(f"{method} {route}")
