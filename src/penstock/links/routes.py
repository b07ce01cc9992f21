"""HTTP of managed links, for those who make them."""

from functools import partial
from typing import Any

from anyio import to_thread
from litestar import Request, Response, get, patch, post
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.http.answers import answer, listing
from penstock.http.bodies import read_bytes, read_json, read_query, require_json
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord
from penstock.links.schema import LinkChange, LinkQuery, LinkRecord, NewLink
from penstock.links.service import LinkService
from penstock.links.stats import StatsService
from penstock.links.stats_schema import TotalsRecord
from penstock.settings import Settings

AnyRequest = Request[Any, Any, Any]


@post("/api/mobile/deferred-links", opt=described("Create a managed link", body=NewLink, answers=LinkRecord, tag="managed links"))
async def create_link(
    request: AnyRequest, caller: NamedDependency[Caller], links: NamedDependency[LinkService], settings: NamedDependency[Settings]
) -> Response[bytes]:
    """Answers with `hostedUrl`, the address to share. The slug is unique in the installation, disabled links included."""
    require_json(request)
    link = await to_thread.run_sync(links.create, caller.workspace_id, await read_bytes(request))
    return answer(LinkRecord.of(link, settings.base_url, TotalsRecord()), status=201)


@get(
    "/api/mobile/deferred-links",
    opt=described("Managed links", answers=LinkRecord, query=LinkQuery, listed=True, later=JobRecord, tag="managed links"),
)
async def list_links(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    link_stats: NamedDependency[StatsService],
    settings: NamedDependency[Settings],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Newest first."""
    query = read_query(request, LinkQuery)

    def made() -> Response[bytes]:
        found = links.page(caller.workspace_id, query)
        stats = link_stats.totals(found.data)
        return listing(found, lambda link: LinkRecord.of(link, settings.base_url, stats[link.id]))

    return await answered(made)


@patch(
    "/api/mobile/deferred-links",
    opt=described("Disable or enable a managed link", body=LinkChange, answers=LinkRecord, tag="managed links"),
)
async def switch_link(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    link_stats: NamedDependency[StatsService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """A disabled link answers like one that does not exist. Its slug stays taken."""
    change = await read_json(request, LinkChange)
    link = await to_thread.run_sync(partial(links.switch, caller.workspace_id, change.id, is_active=change.is_active))
    stats = await to_thread.run_sync(link_stats.totals, [link])
    return answer(LinkRecord.of(link, settings.base_url, stats[link.id]))


ROUTES = (create_link, list_links, switch_link)
