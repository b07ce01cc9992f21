"""Pages for managed links: the list, the forms, and a link's statistics, matches and history."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from litestar import Response

from penstock.accounts.model import Website, WebsiteKind
from penstock.base.errors import Malformed
from penstock.base.ids import LinkId
from penstock.base.paging import Listing, Page
from penstock.links.attribution.service import AttributionService
from penstock.links.attribution.wording import METHODS, REASONS
from penstock.links.management.csv_file import COLUMNS, MAX_BYTES, MAX_ROWS
from penstock.links.management.schema import SLUG_RULE
from penstock.links.management.service import LinkService
from penstock.links.model import SLUG, Link
from penstock.links.statistics.schema import StatisticsQuery, TotalsRecord
from penstock.links.statistics.service import StatisticsService
from penstock.settings import DAY_S
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.links.flow import flow_of
from penstock.web.pages.links.schema import LinkPageQuery, LinksPageQuery, NewLinkQuery
from penstock.web.pages.parts import load_part
from penstock.web.view import View

METHOD_NAMES = {
    "url": "Link URL",
    "install_referrer": "Install referrer",
    "click_token": "Click token",
    "network": "Network",
}
_LATEST_REVISIONS = Page(number=1, size=20)
PLATFORM_NAMES = {
    "ios": "iOS",
    "android": "Android",
    "mobile": "Another phone",
    "desktop": "Computer",
    "": "Unknown",
}


@slow_page("/links")
def list_page(
    view: View, links: LinkService, link_statistics: StatisticsService
) -> Response[bytes]:
    apps = _apps(view)
    query = view.query(LinksPageQuery, apps)
    since_ms = view.now_ms - int(query.days) * DAY_S * 1000 if query.days else 0
    listing, stats = _sorted_page(links, link_statistics, view, query, since_ms)
    return view.render(
        "links/list.html",
        parts=("list",),
        links=listing,
        stats=stats,
        apps=apps,
        query=query,
        is_narrowed=bool(query.search or query.website_id or query.state or query.tag),
        tags=links.tags(view.workspace_id),
        base_url=view.settings.link_url,
    )


def _sorted_page(
    links: LinkService,
    link_statistics: StatisticsService,
    view: View,
    query: LinksPageQuery,
    since_ms: int,
) -> tuple[Listing[Link], Mapping[LinkId, TotalsRecord | None]]:
    """Return a page of links and their totals. Only the newest links need no other links."""
    listed_links: Sequence[Link] = ()
    if query.sort != "newest":
        try:
            listed_links = links.list_all(view.workspace_id, query)
        except Malformed:
            view.ignored["sort"] = "Too many links to sort. Search or filter first."
    if query.sort == "newest" or "sort" in view.ignored:
        listing = links.page(view.workspace_id, query)
        return listing, link_statistics.totals(listing.data, since_ms)
    page = query.pagination
    if query.sort == "name":
        named = sorted(listed_links, key=lambda link: link.name.casefold())
        shown = named[page.offset : page.offset + page.size]
        return Listing(shown, page, len(listed_links)), link_statistics.totals(shown, since_ms)
    stats = link_statistics.totals(listed_links, since_ms)
    ranked = sorted(listed_links, key=lambda link: -_figure(stats[link.id], query.sort))
    return Listing(ranked[page.offset : page.offset + page.size], page, len(listed_links)), stats


def _figure(totals: TotalsRecord | None, name: str) -> int:
    figure: int = 0 if totals is None else getattr(totals, name)
    return figure


@page("/links/new")
def new_page(view: View, links: LinkService) -> Response[bytes]:
    query = view.query(NewLinkQuery)
    source = links.find(view.workspace_id, query.from_) if query.from_ else None
    return view.render(
        "links/new.html",
        apps=[(app.id, app.name) for app in _apps(view)],
        source=source,
        app_id=source.website_id if source else query.website_id,
        base_url=view.settings.link_url,
        slug_pattern=SLUG.pattern,
        slug_rule=SLUG_RULE,
    )


@page("/links/upload")
def upload_page(view: View) -> Response[bytes]:
    return view.render("links/upload.html", columns=COLUMNS, max_rows=MAX_ROWS, max_bytes=MAX_BYTES)


@page("/links/{link_id:str}/edit")
def edit_page(view: View, link_id: str, links: LinkService) -> Response[bytes]:
    link = links.find(view.workspace_id, link_id)
    return view.render(
        "links/edit.html",
        link=link,
        app=view.website(link.website_id),
        short_url=link.short_url(view.settings.link_url),
    )


@slow_page("/links/{link_id:str}")
def link_page(
    view: View,
    link_id: str,
    links: LinkService,
    link_statistics: StatisticsService,
    attribution: AttributionService,
) -> Response[bytes]:
    link = links.find(view.workspace_id, link_id)
    query, link_url = view.query(LinkPageQuery), view.settings.link_url
    load = partial(_statistics, link_statistics, view, link, query)
    return view.render(
        "links/link.html",
        parts=("statistics", "matches"),
        link=link,
        app=view.website(link.website_id),
        query=query,
        hosted_url=link.hosted_url(link_url),
        short_url=link.short_url(link_url),
        statistics=load_part(view, "statistics", load),
        matches=attribution.matches_of_link(view.workspace_id, link.id, query.pagination),
        revisions=links.revisions(view.workspace_id, link.id, _LATEST_REVISIONS),
        methods=METHODS,
        method_names=METHOD_NAMES,
        platform_names=PLATFORM_NAMES,
        reasons=REASONS,
    )


def _statistics(
    link_statistics: StatisticsService, view: View, link: Link, query: LinkPageQuery
) -> dict[str, Any]:
    interval = {"interval": query.interval, "timezone": query.timezone}
    statistics_query = StatisticsQuery.model_validate(query.span_parameters(view.now_ms) | interval)
    stats = link_statistics.read(view.workspace_id, link.id, statistics_query)
    return {"stats": stats, "flow": flow_of(stats)}


def _apps(view: View) -> list[Website]:
    return [website for website in view.websites if website.kind is WebsiteKind.MOBILE]


ROUTES = (list_page, new_page, upload_page, edit_page, link_page)
