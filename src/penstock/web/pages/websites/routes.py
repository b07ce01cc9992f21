"""Settings pages for websites and apps."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.model import WebsiteKind
from penstock.accounts.websites.service import WebsiteService
from penstock.base.paging import Page
from penstock.events.service import EventService
from penstock.http.schema import PageQuery
from penstock.links.association.service import AssociationService
from penstock.settings import Settings
from penstock.web.view import View


@get("/settings/websites", sync_to_thread=True)
def websites(
    view: NamedDependency[View], website_service: NamedDependency[WebsiteService]
) -> Response[bytes]:
    return view.render(
        "settings/websites.html",
        websites=website_service.websites_page(view.workspace_id, view.query(PageQuery).pagination),
    )


@get("/settings/websites/new", sync_to_thread=True)
def new_website(view: NamedDependency[View]) -> Response[bytes]:
    return view.render("settings/website_new.html")


@get("/settings/websites/{website_id:str}", sync_to_thread=True)
def website(
    view: NamedDependency[View],
    website_id: FromPath[str],
    website_service: NamedDependency[WebsiteService],
    associations: NamedDependency[AssociationService],
    events: NamedDependency[EventService],
    identity_secrets: NamedDependency[IdentitySecretService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    record = website_service.website(view.workspace_id, website_id)
    is_app = record.kind is WebsiteKind.MOBILE
    return view.render(
        "settings/website.html",
        parts=("identity_secrets",),
        website=record,
        today=events.quota.today(record.id),
        check=associations.check(view.workspace_id, record.id) if is_app else None,
        base_url=settings.base_url,
        identity_secrets=identity_secrets.secrets(view.workspace_id, record.id, Page(1, 10)),
    )


ROUTES = (websites, new_website, website)
