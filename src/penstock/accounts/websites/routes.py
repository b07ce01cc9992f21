"""HTTP routes for websites."""

from anyio import to_thread
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.accounts.websites.schema import NewWebsite, WebsiteChanges, WebsiteRecord
from penstock.accounts.websites.service import WebsiteService
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.read_only import read_changes
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery


@post(
    "/api/settings/websites",
    opt=described(
        "Add a website or a mobile app", body=NewWebsite, answers=WebsiteRecord, tag="accounts"
    ),
)
async def create_website(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
) -> Response[bytes]:
    form = await read_json(request, NewWebsite)
    website = await to_thread.run_sync(website_service.create_website, caller, form)
    return answer(WebsiteRecord.from_website(website), status=201)


@get(
    "/api/settings/websites",
    opt=described(
        "Websites and mobile apps",
        answers=WebsiteRecord,
        query=PageQuery,
        listed=True,
        tag="accounts",
    ),
)
async def list_websites(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
) -> Response[bytes]:
    """Lists websites, oldest first."""
    page = read_query(request, PageQuery).pagination
    websites = await to_thread.run_sync(website_service.websites_page, caller.workspace_id, page)
    return await answer_list(websites, WebsiteRecord.from_website)


@get(
    "/api/settings/websites/{website_id:str}",
    opt=described("A website", answers=WebsiteRecord, tag="accounts"),
)
async def read_website(
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
) -> Response[bytes]:
    return answer(
        WebsiteRecord.from_website(
            await to_thread.run_sync(website_service.website, caller.workspace_id, website_id)
        )
    )


@patch(
    "/api/settings/websites/{website_id:str}",
    opt=described(
        "Change a website",
        body=WebsiteChanges,
        answers=WebsiteRecord,
        takes_read_only=True,
        tag="accounts",
    ),
)
async def change_website(
    request: AnyRequest,
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
) -> Response[bytes]:
    """Changes the fields that are sent. Omitted fields keep their value; null clears a field.

    Read-only fields (`id`, `kind`, ...) may be sent back with their stored values.
    """
    changes, read_only = await read_changes(request, WebsiteChanges, WebsiteRecord)
    stored = await to_thread.run_sync(website_service.website, caller.workspace_id, website_id)
    read_only.check(WebsiteRecord.from_website(stored))
    website = await to_thread.run_sync(website_service.change_website, caller, website_id, changes)
    return answer(WebsiteRecord.from_website(website))


@delete(
    "/api/settings/websites/{website_id:str}", opt=described("Delete a website", tag="accounts")
)
async def delete_website(
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
) -> Response[None]:
    """Deletes a website. It accepts no more events, but its stored events are kept."""
    await to_thread.run_sync(website_service.delete_website, caller, website_id)
    return no_content()


ROUTES = (create_website, list_websites, read_website, change_website, delete_website)
