"""The routes of all pages. Readers without a session are redirected to the log-in; errors are shown
as pages.
"""

from copy import copy

from litestar import Response, get
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from penstock.base.errors import NotFound
from penstock.http.requests import AnyRequest
from penstock.web.assets import accepts_gzip, assets
from penstock.web.client.routes import ROUTES as CLIENT_SCRIPT_ROUTES
from penstock.web.error_pages import PAGE_HANDLERS
from penstock.web.pages.attribution import routes as attribution_routes
from penstock.web.pages.cohorts import routes as cohorts_routes
from penstock.web.pages.docs import routes as docs_routes
from penstock.web.pages.funnel_page import provide_funnel_pages
from penstock.web.pages.funnels import routes as funnels_routes
from penstock.web.pages.goals import routes as goals_routes
from penstock.web.pages.imports import routes as imports_routes
from penstock.web.pages.links import routes as links_routes
from penstock.web.pages.live import routes as live_routes
from penstock.web.pages.people import routes as people_routes
from penstock.web.pages.report import routes as report_routes
from penstock.web.pages.segments import routes as segments_routes
from penstock.web.pages.session import routes as session_routes
from penstock.web.pages.settings import routes as settings_routes
from penstock.web.pages.system import routes as system_routes
from penstock.web.pages.units import routes as units_routes
from penstock.web.pages.visitors import routes as visitors_routes
from penstock.web.pages.websites import routes as websites_routes
from penstock.web.pages.welcome import routes as welcome_routes
from penstock.web.view import provide_respond, provide_view

AREAS = (
    session_routes,
    welcome_routes,
    funnels_routes,
    report_routes,
    units_routes,
    goals_routes,
    segments_routes,
    live_routes,
    visitors_routes,
    cohorts_routes,
    links_routes,
    attribution_routes,
    imports_routes,
    websites_routes,
    people_routes,
    settings_routes,
    system_routes,
)
"""Route modules, by area of the dashboard. Add new areas here."""

_DEPENDENCIES = {
    "view": Provide(provide_view),
    "respond": Provide(provide_respond),
    "funnel_pages": Provide(provide_funnel_pages),
}


def _page(handler: HTTPRouteHandler) -> HTTPRouteHandler:
    page = copy(handler)
    page.dependencies = _DEPENDENCIES
    page.exception_handlers = {**PAGE_HANDLERS, **(page.exception_handlers or {})}
    page.opt = page.opt | {"page": True}
    return page


@get("/static/{version:str}/{path:path}", sync_to_thread=True)
def asset(request: AnyRequest, version: FromPath[str], path: FromPath[str]) -> Response[bytes]:
    """Serve a static file, but only under the current hash, so that caches cannot mix up
    versions.
    """
    current, files = assets()
    file = files.get(path.lstrip("/")) if version == current else None
    if file is None:
        raise NotFound("There is nothing at this URL.")
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "Vary": "Accept-Encoding",
    }
    if accepts_gzip(request):
        return Response(
            file.gzipped, media_type=file.media_type, headers=headers | {"Content-Encoding": "gzip"}
        )
    return Response(file.body, media_type=file.media_type, headers=headers)


ROUTES = (
    *(_page(handler) for area in AREAS for handler in area.ROUTES),
    asset,
    *CLIENT_SCRIPT_ROUTES,
    *docs_routes.ROUTES,
)
