"""The routes of all pages, by area of the dashboard. Add new areas here."""

from litestar import Response

from penstock.base.errors import NotFound
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.web.assets import IMMUTABLE, assets
from penstock.web.client import routes as client_routes
from penstock.web.pages.alert_messages import routes as alert_messages_routes
from penstock.web.pages.alerts import routes as alerts_routes
from penstock.web.pages.attribution import routes as attribution_routes
from penstock.web.pages.cohorts import routes as cohorts_routes
from penstock.web.pages.docs import routes as docs_routes
from penstock.web.pages.funnels import routes as funnels_routes
from penstock.web.pages.goals import routes as goals_routes
from penstock.web.pages.imports import routes as imports_routes
from penstock.web.pages.links import routes as links_routes
from penstock.web.pages.live import routes as live_routes
from penstock.web.pages.people import routes as people_routes
from penstock.web.pages.receipts import routes as receipts_routes
from penstock.web.pages.report import routes as report_routes
from penstock.web.pages.segments import routes as segments_routes
from penstock.web.pages.session import routes as session_routes
from penstock.web.pages.settings import routes as settings_routes
from penstock.web.pages.shares import routes as shares_routes
from penstock.web.pages.system import routes as system_routes
from penstock.web.pages.units import routes as units_routes
from penstock.web.pages.visitors import routes as visitors_routes
from penstock.web.pages.webhooks import routes as webhooks_routes
from penstock.web.pages.websites import routes as websites_routes
from penstock.web.pages.welcome import routes as welcome_routes


@route("GET", "/static/{version:str}/{path:path}")
def asset(request: AnyRequest, version: str, path: str) -> Response[bytes]:
    """Serve a static file, but only under the current hash, so that caches cannot mix up
    versions.
    """
    current, files = assets()
    file = files.get(path.lstrip("/")) if version == current else None
    if file is None:
        raise NotFound("There is nothing at this URL.")
    return file.response(request, IMMUTABLE)


ROUTES = (
    *session_routes.ROUTES,
    *welcome_routes.ROUTES,
    *funnels_routes.ROUTES,
    *report_routes.ROUTES,
    *units_routes.ROUTES,
    *alert_messages_routes.ROUTES,
    *alerts_routes.ROUTES,
    *goals_routes.ROUTES,
    *segments_routes.ROUTES,
    *live_routes.ROUTES,
    *visitors_routes.ROUTES,
    *cohorts_routes.ROUTES,
    *links_routes.ROUTES,
    *attribution_routes.ROUTES,
    *imports_routes.ROUTES,
    *websites_routes.ROUTES,
    *people_routes.ROUTES,
    *settings_routes.ROUTES,
    *shares_routes.ROUTES,
    *webhooks_routes.ROUTES,
    *receipts_routes.ROUTES,
    *system_routes.ROUTES,
    asset,
    *client_routes.ROUTES,
    *docs_routes.ROUTES,
)
