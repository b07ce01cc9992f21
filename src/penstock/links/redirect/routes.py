"""HTTP routes of the public side of managed links."""

from litestar import HttpMethod, route
from litestar.di import NamedDependency

from penstock.http.fast_path import RawResponse
from penstock.http.requests import AnyRequest
from penstock.links.model import PUBLIC_PATH
from penstock.links.redirect.asgi import respond
from penstock.links.redirect.service import RedirectService


@route(PUBLIC_PATH + "{slug:path}", http_method=[HttpMethod.GET, HttpMethod.HEAD], status_code=200)
async def open_link(
    request: AnyRequest, redirects: NamedDependency[RedirectService]
) -> RawResponse:
    slug = str(request.path_params["slug"]).removeprefix("/")
    return await respond(redirects, request.scope, slug)


ROUTES = (open_link,)
