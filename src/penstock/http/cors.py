"""CORS for routes that any website may call, such as the tracker's."""

from collections.abc import Sequence

from litestar import Response
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = ("Content-Type", "Content-Encoding")

_ANSWER = [
    (b"access-control-allow-origin", b"*"),
    # Clients wait as long as the server says, and learn from its date how wrong their clock is.
    (b"access-control-expose-headers", b"Retry-After, Date, X-Request-ID"),
]


class AnyOriginCors(ASGIMiddleware):
    """Allow any origin to read the response, including errors. Credentials are not allowed."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ANSWER]
            await send(message)

        await next_app(scope, receive, send_with_header)


def preflight(
    methods: Sequence[str] = ("POST",), headers: Sequence[str] = _HEADERS
) -> Response[None]:
    """methods, headers: what other sites may send."""
    answer = {
        "Allow": ", ".join(sorted(["OPTIONS", *methods])),
        "Access-Control-Allow-Methods": ", ".join(methods),
        "Access-Control-Allow-Headers": ", ".join(headers),
        "Access-Control-Max-Age": "86400",
    }
    return Response(None, status_code=204, headers=answer)
