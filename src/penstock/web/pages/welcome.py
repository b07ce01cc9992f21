"""The first run: a website or an app, how to send events for it, the first of them."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.service import AccountService
from penstock.catalogue.schema import NamesQuery
from penstock.catalogue.service import CatalogueService
from penstock.jobs.answered import Answered
from penstock.settings import Settings
from penstock.web.view import View

_STOP_POLLING = 286  # htmx: swap this answer in and ask no more


@get("/welcome", sync_to_thread=True)
def add_first(view: NamedDependency[View]) -> Response[bytes]:
    return view.render("welcome/add.html")


@get("/welcome/{website_id:str}")
async def connect(
    view: NamedDependency[View],
    website_id: FromPath[str],
    accounts: NamedDependency[AccountService],
    catalogue: NamedDependency[CatalogueService],
    settings: NamedDependency[Settings],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Also what the page asks every two seconds for its part `arrival`, until there is an event."""

    def made() -> Response[bytes]:
        website = accounts.website(view.workspace_id, website_id)
        seen = catalogue.names(view.workspace_id, NamesQuery(websiteId=website.id, pageSize=5))
        return view.render(
            "welcome/connect.html",
            parts=("arrival",),
            status=_STOP_POLLING if seen.total and "hx-request" in view.request.headers else 200,
            website=website,
            seen=seen,
            base_url=settings.base_url,
        )

    return await answered(made)


ROUTES = (add_first, connect)
