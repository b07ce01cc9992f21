"""Serves the busiest routes without the framework.

For a small event, the framework's routing, dependencies and response objects take as long as all
the work of the handler.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from penstock.http.openapi import description_of
from penstock.http.problems import problem_response


@dataclass(slots=True)
class RawResponse:
    """An ASGI response that is sent unchanged. headers: must include the length of the body."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def raw_json(
    body: bytes, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()
) -> RawResponse:
    """Build a response from a body that is already JSON."""
    length = (b"content-length", b"%d" % len(body))
    return RawResponse(status, ((b"content-type", b"application/json"), length, *headers), body)


class _DirectRequest(Request[Any, Any, Any]):
    """A request that holds its headers in a plain dictionary, which is quicker to build.

    Keys are lower case. If a header is repeated, the first value counts, as in the framework.
    """

    @cached_property
    def headers(self) -> Any:
        return {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(list(self.scope["headers"]))
        }


class DirectRoutes:
    """ASGI middleware that calls the handlers of direct routes, and the framework for the rest.

    The framework also has these handlers. It documents them, and serves other methods and other
    spellings of their paths.
    """

    def __init__(
        self, framework: ASGIApp, handlers: Iterable[HTTPRouteHandler], services: object
    ) -> None:
        """handlers: take `request` and services as parameters, and return an ASGI response."""
        self._framework = framework
        self._routes: dict[tuple[str, str], tuple[ASGIApp, str, bool]] = {}
        self._prefixes = set[str]()
        for handler in handlers:
            app, takes_query = _application(handler, services), _takes_query(handler)
            for template in handler.paths:
                prefix, _, parameter = template.partition("{")
                if parameter:
                    self._prefixes.add(prefix)
                    template = f"{prefix}{{{parameter.partition(':')[0]}}}"
                for method in handler.http_methods:
                    self._routes[method, prefix] = app, template, takes_query

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            route = self._find(scope["method"], scope["path"])
            if route is not None:
                app, template, takes_query = route
                if takes_query or not scope["query_string"]:
                    scope["path_template"] = template
                    await app(scope, receive, send)
                    return
        await self._framework(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[ASGIApp, str, bool] | None:
        if path in self._prefixes:  # the path lacks the parameter
            return None
        if (route := self._routes.get((method, path))) is not None:
            return route
        for prefix in self._prefixes:
            if path.startswith(prefix) and "\0" not in path:  # the framework rejects paths with NUL
                return self._routes.get((method, prefix))
        return None


def _application(handler: HTTPRouteHandler, services: object) -> ASGIApp:
    """Wrap the handler as an ASGI application, with its services and middleware."""
    endpoint = handler.opt["endpoint"]
    names = [name for name in endpoint.objects if name != "request"]
    handle = partial(endpoint.function, **{name: getattr(services, name) for name in names})

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await handle(_DirectRequest(scope, receive, send))
        except Exception as error:
            response = problem_response(error)
        await response(scope, receive, send)

    app: ASGIApp = respond
    for middleware in handler.middleware or ():
        assert isinstance(middleware, ASGIMiddleware)
        app = partial(middleware.handle, next_app=app)
    return app


def _takes_query(handler: HTTPRouteHandler) -> bool:
    """Whether the route accepts arbitrary query parameters. If not, the framework rejects them."""
    description = description_of(handler)
    return description is None or description.open_to_all
