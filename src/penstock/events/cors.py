"""Routes that any page may call: the tracker runs on its customers' sites."""

from litestar import Response
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Content-Type, Content-Encoding",
    "Access-Control-Max-Age": "86400",
}


class AnyOrigin(ASGIMiddleware):
    """Lets every page read the answer, refusals included. No credentials: what needs them is not open to other pages."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"access-control-allow-origin", b"*")]
            await send(message)

        await next_app(scope, receive, opened)


def preflight() -> Response[None]:
    return Response(None, status_code=204, headers=_PREFLIGHT)
