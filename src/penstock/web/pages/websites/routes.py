"""Settings pages for websites and apps."""

from litestar import Response

from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.model import WebsiteKind
from penstock.accounts.websites.service import WebsiteService
from penstock.base.paging import Page
from penstock.events.service import EventService
from penstock.http.schema import PageQuery
from penstock.links.association.service import AssociationService
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/settings/websites")
def websites(view: View, website_service: WebsiteService) -> Response[bytes]:
    return view.render(
        "settings/websites.html",
        websites=website_service.websites_page(view.workspace_id, view.query(PageQuery).pagination),
    )


@page("/settings/websites/new")
def new_website(view: View) -> Response[bytes]:
    return view.render("settings/website_new.html")


@page("/settings/websites/{website_id:str}")
def website(
    view: View,
    website_id: str,
    website_service: WebsiteService,
    associations: AssociationService,
    events: EventService,
    identity_secrets: IdentitySecretService,
) -> Response[bytes]:
    record = website_service.website(view.workspace_id, website_id)
    is_app = record.kind is WebsiteKind.MOBILE
    return view.render(
        "settings/website.html",
        parts=("identity_secrets",),
        website=record,
        today=events.quota.today(record.id),
        check=associations.check(view.workspace_id, record.id) if is_app else None,
        identity_secrets=identity_secrets.secrets(view.workspace_id, record.id, Page(1, 10)),
    )


ROUTES = (websites, new_website, website)
