"""The pages of the first run: add a website or app, send events, see the first event."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.websites.service import WebsiteService
from penstock.catalogue.schema import NamesQuery
from penstock.catalogue.service import CatalogueService
from penstock.jobs.cancellable import CancellableResponse
from penstock.settings import Settings
from penstock.web.view import View

_STOP_POLLING = 286  # htmx swaps in a response with this status, and then stops polling.


@get("/welcome", sync_to_thread=True)
def add_first(view: NamedDependency[View]) -> Response[bytes]:
    return view.render("welcome/add.html")


@get("/welcome/{website_id:str}")
async def connect(
    view: NamedDependency[View],
    website_id: FromPath[str],
    website_service: NamedDependency[WebsiteService],
    catalogue: NamedDependency[CatalogueService],
    settings: NamedDependency[Settings],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Show instructions for sending events. The part `arrival` polls until an event arrives."""

    def render() -> Response[bytes]:
        website = website_service.website(view.workspace_id, website_id)
        polls = "hx-request" in view.request.headers
        event_names = catalogue.names(
            view.workspace_id, NamesQuery(websiteId=website.id, pageSize=5)
        )
        return view.render(
            "welcome/connect.html",
            parts=("arrival",),
            status=_STOP_POLLING if event_names.total and polls else 200,
            website=website,
            event_names=event_names,
            base_url=settings.base_url,
        )

    return await respond(render)


ROUTES = (add_first, connect)
