"""HTTP routes for websites."""

from penstock.accounts.model import Caller
from penstock.accounts.websites.schema import NewWebsite, WebsiteChanges, WebsiteRecord
from penstock.accounts.websites.service import WebsiteService
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import PageQuery

_ALL = "/api/settings/websites"
_ONE = "/api/settings/websites/{website_id:str}"


@route("POST", _ALL, "Add a website or a mobile app", tag="accounts")
def create_website(
    caller: Caller, website_service: WebsiteService, website: NewWebsite
) -> WebsiteRecord:
    return WebsiteRecord.from_website(website_service.create_website(caller, website))


@route("GET", _ALL, "Websites and mobile apps", tag="accounts")
def list_websites(
    caller: Caller, website_service: WebsiteService, query: PageQuery
) -> Listing[WebsiteRecord]:
    """Lists websites, oldest first."""
    websites = website_service.websites_page(caller.workspace_id, query.pagination)
    return websites.map(WebsiteRecord.from_website)


@route("GET", _ONE, "A website", tag="accounts")
def read_website(caller: Caller, website_service: WebsiteService, website_id: str) -> WebsiteRecord:
    return WebsiteRecord.from_website(website_service.website(caller.workspace_id, website_id))


@route("PATCH", _ONE, "Change a website", tag="accounts")
def change_website(
    caller: Caller,
    website_service: WebsiteService,
    website_id: str,
    changes: WebsiteChanges,
    read_only: ReadOnlyFields,
) -> WebsiteRecord:
    """Changes the fields that are sent. Omitted fields keep their value; null clears a field.

    Read-only fields (`id`, `kind`, ...) may be sent back with their stored values.
    """
    stored = website_service.website(caller.workspace_id, website_id)
    read_only.check(WebsiteRecord.from_website(stored))
    return WebsiteRecord.from_website(website_service.change_website(caller, website_id, changes))


@route("DELETE", _ONE, "Delete a website", tag="accounts")
def delete_website(caller: Caller, website_service: WebsiteService, website_id: str) -> None:
    """Deletes a website. It accepts no more events, but its stored events are kept."""
    website_service.delete_website(caller, website_id)


ROUTES = (create_website, list_websites, read_website, change_website, delete_website)
