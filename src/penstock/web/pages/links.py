"""Managed links: the list, the form of a new one, and one with its statistics and the opens that concerned it."""

from typing import Annotated

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from pydantic import Field

from penstock.accounts.model import Website, WebsiteKind
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock, iso
from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.http.schema import PageQuery, Query
from penstock.jobs.answered import Answered
from penstock.links.resolver import Resolver
from penstock.links.schema import SLUG, SLUG_RULE, LinkQuery
from penstock.links.service import LinkService
from penstock.links.stats import StatsService
from penstock.links.stats_schema import StatsQuery
from penstock.links.wording import METHODS, REASONS
from penstock.settings import Settings
from penstock.web.pages.asked import DaysAsked
from penstock.web.pages.flow import flow_of
from penstock.web.pages.subject import part_of
from penstock.web.view import View

METHOD_NAMES = {"url": "Address", "install_referrer": "Install referrer", "click_token": "Click token", "network": "Network"}
PLATFORM_NAMES = {"ios": "iOS", "android": "Android", "mobile": "Another phone", "desktop": "Computer", "": "Unknown"}


class NewAsked(Query):
    """What a new link begins with. from_: the ID of a link to duplicate."""

    from_: Annotated[str | None, Field(alias="from")] = None
    website_id: str | None = None


class LinkAsked(DaysAsked, PageQuery):
    """The time of a link's statistics, and the page of its audit."""

    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 10


@get("/links")
async def list_page(
    view: NamedDependency[View],
    links: NamedDependency[LinkService],
    link_stats: NamedDependency[StatsService],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        apps = _apps(accounts, view.workspace_id)
        asked = view.query(LinkQuery)
        if asked.website_id not in {app.id for app in apps}:
            asked = asked.model_copy(update={"website_id": None})
        found = links.page(view.workspace_id, asked)
        return view.render(
            "links/list.html",
            parts=("list",),
            found=found,
            stats=link_stats.totals(found.data),
            apps=apps,
            app_names={app.id: app.name for app in apps},
            asked=asked,
            base_url=settings.base_url,
        )

    return await answered(made)


@get("/links/new", sync_to_thread=True)
def new_page(
    view: NamedDependency[View],
    links: NamedDependency[LinkService],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    asked = view.query(NewAsked)
    source = links.find(view.workspace_id, asked.from_) if asked.from_ else None
    return view.render(
        "links/new.html",
        apps=[(app.id, app.name) for app in _apps(accounts, view.workspace_id)],
        source=source,
        chosen=source.website_id if source else asked.website_id,
        base_url=settings.base_url,
        slug_pattern=SLUG.pattern,
        slug_rule=SLUG_RULE,
    )


@get("/links/{link_id:str}")
async def link_page(
    view: NamedDependency[View],
    link_id: FromPath[str],
    links: NamedDependency[LinkService],
    link_stats: NamedDependency[StatsService],
    resolver: NamedDependency[Resolver],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    clock: NamedDependency[Clock],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        link, asked, now_ms = links.find(view.workspace_id, link_id), view.query(LinkAsked), clock()
        span = asked.span(now_ms)

        def statistics() -> dict[str, object]:
            period = {} if span is None else {"startAt": iso(span[0]), "endAt": iso(span[1])}
            query = StatsQuery.model_validate({**period, "interval": asked.interval, "timezone": asked.timezone})
            found = link_stats.of_link(view.workspace_id, link.id, query)
            return {"found": found, "flow": flow_of(found)}

        return view.render(
            "links/link.html",
            parts=("statistics", "matches"),
            link=link,
            app=accounts.find_website(link.website_id),
            asked=asked,
            now_ms=now_ms,
            hosted_url=link.hosted_url(settings.base_url),
            short_url=f"{settings.base_url}/l/{link.slug}",
            statistics=part_of(view, "statistics", statistics),
            matches=resolver.matches_of_link(view.workspace_id, link.id, asked.asked),
            methods=METHODS,
            method_names=METHOD_NAMES,
            platform_names=PLATFORM_NAMES,
            reasons=REASONS,
        )

    return await answered(made)


def _apps(accounts: AccountService, workspace_id: WorkspaceId) -> list[Website]:
    return [website for website in accounts.websites(workspace_id) if website.kind is WebsiteKind.MOBILE]


ROUTES = (list_page, new_page, link_page)
