"""Rules for all routes: `HEAD` wherever `GET` works, checks of paths and parameters, the OpenAPI
document.
"""

from litestar import HttpMethod, Response
from litestar.config.app import AppConfig
from litestar.handlers import HTTPRouteHandler
from litestar.routes import http

from penstock.base.errors import Fault, NotFound
from penstock.http.answers import answer
from penstock.http.bodies import NO_SUCH_PARAMETER, bad_parameter
from penstock.http.handlers import route
from penstock.http.openapi import description_of, openapi_document_of
from penstock.http.requests import AnyRequest


@route("GET", "/api/openapi.json")
def openapi(request: AnyRequest) -> Response[bytes]:
    return answer(openapi_document_of(request.app))


async def check_request(request: AnyRequest) -> Response[None] | None:
    """Answer `OPTIONS`, and reject bad paths and parameters before any handler runs.

    This is a coroutine, because the framework runs plain functions in a thread.
    """
    if request.method == "OPTIONS" and request.route_handler.fn.__module__ == http.__name__:
        return _options(request)
    _check_address(request)
    return None


def _options(request: AnyRequest) -> Response[None]:
    """Answer `OPTIONS`. The framework's own response lists only the first handler's methods."""
    template = request.scope["path_template"]
    methods = {
        method
        for each in request.app.routes
        if isinstance(each, http.HTTPRoute) and each.path_format == template
        for method in each.methods
    }
    return Response(None, status_code=204, headers={"Allow": ", ".join(sorted(methods))})


def _check_address(request: AnyRequest) -> None:
    """Check the path and the parameter names.

    Raises `NotFound` for a NUL in the path, which PostgreSQL cannot store, and `Malformed` for
    parameters that the route does not have. Public routes accept any parameter, because other sites
    add their own to links.
    """
    if "\x00" in request.scope["path"]:
        raise NotFound("There is nothing at this URL.")
    description = description_of(request.route_handler)
    if description is None or description.open_to_all or description.query is not None:
        return
    if names := list(request.query_params):
        raise bad_parameter(*(Fault(name, "unknown_field", NO_SUCH_PARAMETER) for name in names))


def answer_head(config: AppConfig) -> AppConfig:
    """Make every GET route also answer HEAD. The server omits the body."""
    for handler in config.route_handlers:
        if isinstance(handler, HTTPRouteHandler) and HttpMethod.GET in handler.http_methods:
            handler.http_methods.add(HttpMethod.HEAD)
    return config


ROUTES = (openapi,)
