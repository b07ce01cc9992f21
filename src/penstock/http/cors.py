"""CORS for routes that any website may call, such as the tracker's."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, ControllerRouterHandler, Message, Receive, Scope, Send

from penstock.base.errors import PenstockError
from penstock.http.problems import problem_of, problem_response

_HEADERS = ("Content-Type", "Content-Encoding")

ANY_ORIGIN = [
    (b"access-control-allow-origin", b"*"),
    # Clients need Retry-After to wait, and Date to correct their clock.
    (b"access-control-expose-headers", b"Retry-After, Date, X-Request-ID"),
]


class AnyOriginCors(ASGIMiddleware):
    """Allow any origin to read the response, including errors. Credentials are not allowed."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        # This returns the coroutine of `send` itself instead of wrapping it in another.
        def send_with_header(message: Message) -> Any:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *ANY_ORIGIN]
            return send(message)

        await next_app(scope, receive, send_with_header)


def preflight(
    methods: Sequence[str] = ("POST",), headers: Sequence[str] = _HEADERS
) -> Response[None]:
    """Build the response to a preflight request. methods, headers: the methods and headers that
    other sites may use.
    """
    answer = {
        "Allow": ", ".join(sorted(["OPTIONS", *methods])),
        "Access-Control-Allow-Methods": ", ".join(methods),
        "Access-Control-Allow-Headers": ", ".join(headers),
        "Access-Control-Max-Age": "86400",
    }
    return Response(None, status_code=204, headers=answer)


class OpenRoutes:
    """The routes that any website may call. Used to reject requests before routing."""

    def __init__(self, handlers: Iterable[ControllerRouterHandler]) -> None:
        self._routes = [
            (path.split("/"), handler)
            for handler in handlers
            if isinstance(handler, HTTPRouteHandler) and _is_open(handler)
            for path in handler.paths
        ]

    def refusal(self, scope: Any, error: PenstockError) -> ASGIApp:
        """Return the error response that the request's route would send."""
        parts = scope["path"].split("/")
        for template, handler in self._routes:
            if (
                scope["method"] in handler.http_methods
                and len(parts) == len(template)
                and all(map(_fits, parts, template))
            ):
                on_error: Any = (handler.exception_handlers or {}).get(PenstockError, problem_of)
                answer = problem_response(error, on_error)
                return partial(AnyOriginCors().handle, next_app=answer)
        return problem_response(error)


def _is_open(handler: HTTPRouteHandler) -> bool:
    return any(isinstance(middleware, AnyOriginCors) for middleware in handler.middleware or ())


def _fits(part: str, template: str) -> bool:
    return part == template or template.startswith("{")
