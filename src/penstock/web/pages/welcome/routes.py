"""The pages that connect a website or app: add the first one, send events, see them arrive."""

from litestar import Response
from litestar.response import Redirect

from penstock.accounts.websites.service import WebsiteService
from penstock.catalogue.schema import NamesQuery
from penstock.catalogue.service import CatalogueService
from penstock.web.page_routes import page, slow_page
from penstock.web.view import View

_STOP_POLLING = 286  # htmx swaps in a response with this status, and then stops polling.


@page("/welcome")
def add_first(view: View) -> Response[bytes]:
    return view.render("welcome/add.html")


@page("/connect")
def lead_to_website(view: View) -> Redirect:
    """Lead to the instructions for the website of the query, or else for the first one."""
    chosen = view.request.query_params.get("websiteId")
    ids = [website.id for website in view.websites]
    website_id = chosen if chosen in ids else next(iter(ids), "")
    return Redirect(f"/welcome/{website_id}".rstrip("/"), status_code=302)


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


ROUTES = (add_first, lead_to_website, connect)
