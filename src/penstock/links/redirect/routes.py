"""HTTP routes for people who open managed links."""

from litestar import HttpMethod, route
from litestar.di import NamedDependency

from penstock.http.direct import RawResponse
from penstock.http.requests import AnyRequest
from penstock.links.model import PUBLIC_PATH
from penstock.links.redirect.asgi import respond
from penstock.links.redirect.service import RedirectService


async def open_link(
    request: AnyRequest, redirects: NamedDependency[RedirectService]
) -> RawResponse:
    return await respond(redirects, request.scope)


_METHODS = [HttpMethod.GET, HttpMethod.HEAD]
_SLUG = "{slug:path}"

DIRECT_ROUTES = (route(PUBLIC_PATH + _SLUG, http_method=_METHODS, status_code=200)(open_link),)
ROUTES = (
    *DIRECT_ROUTES,
    # Some people and programs write URLs in capital letters.
    route(
        PUBLIC_PATH.upper() + _SLUG, http_method=_METHODS, status_code=200, include_in_schema=False
    )(open_link),
)
