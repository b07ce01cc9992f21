"""HTTP routes for people who open managed links."""

from penstock.http.direct import RawResponse
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.links.model import PUBLIC_PATH
from penstock.links.redirect.asgi import respond
from penstock.links.redirect.service import RedirectService


async def open_link(request: AnyRequest, redirects: RedirectService) -> RawResponse:
    return await respond(redirects, request.scope)


DIRECT_ROUTES = (route("GET", f"{PUBLIC_PATH}{{slug:path}}")(open_link),)
ROUTES = (
    *DIRECT_ROUTES,
    # Some people and programs write URLs in capital letters.
    route("GET", f"{PUBLIC_PATH.upper()}{{slug:path}}")(open_link),
)
