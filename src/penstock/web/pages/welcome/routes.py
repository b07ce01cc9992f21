"""The pages of the first run: add a website or app, send events, see the first event."""

from litestar import Response

from penstock.accounts.websites.service import WebsiteService
from penstock.catalogue.schema import NamesQuery
from penstock.catalogue.service import CatalogueService
from penstock.web.page_routes import page, slow_page
from penstock.web.view import View

_STOP_POLLING = 286  # htmx swaps in a response with this status, and then stops polling.


@page("/welcome")
def add_first(view: View) -> Response[bytes]:
    return view.render("welcome/add.html")


@slow_page("/welcome/{website_id:str}")
def connect(
    view: View, website_id: str, website_service: WebsiteService, catalogue: CatalogueService
) -> Response[bytes]:
    """Show instructions for sending events. The part `arrival` polls until an event arrives."""
    website = website_service.website(view.workspace_id, website_id)
    polls = "hx-request" in view.request.headers
    event_names = catalogue.names(view.workspace_id, NamesQuery(websiteId=website.id, pageSize=5))
    return view.render(
        "welcome/connect.html",
        parts=("arrival",),
        status=_STOP_POLLING if event_names.total and polls else 200,
        website=website,
        event_names=event_names,
    )


ROUTES = (add_first, connect)
