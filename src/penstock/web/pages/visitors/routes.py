"""The list of visitors, and the page of one visitor."""

from urllib.parse import unquote, urlencode

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Redirect

from penstock.accounts.websites.service import WebsiteService
from penstock.activity.visitors.schema import TimelineQuery, VisitorsQuery
from penstock.activity.visitors.service import VisitorService
from penstock.base.errors import Malformed
from penstock.http.requests import raw_path_after
from penstock.jobs.cancellable import CancellableResponse
from penstock.web.view import View, names_of


@get("/visitors")
async def find_visitors(
    view: NamedDependency[View],
    website_service: NamedDependency[WebsiteService],
    visitors: NamedDependency[VisitorService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    def render() -> Response[bytes]:
        websites = website_service.websites(view.workspace_id)
        query = view.drop_foreign_website(view.query(VisitorsQuery), websites)
        return view.render(
            "visitors/list.html",
            parts=("list",),
            query=query,
            visitors=visitors.visitors(view.workspace_id, query),
            websites=websites,
            names=names_of(websites),
        )

    return await respond(render)


@get("/visitors/{visitor_id:path}")
async def visitor(
    view: NamedDependency[View],
    visitor_id: FromPath[str],
    website_service: NamedDependency[WebsiteService],
    visitors: NamedDependency[VisitorService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Show one visitor. If several visitors share the ID, redirects to their list."""

    def render() -> Response[bytes]:
        visitor_id = unquote(raw_path_after(view.request, "/visitors/"))
        websites = website_service.websites(view.workspace_id)
        query = view.drop_foreign_website(view.query(TimelineQuery), websites)
        try:
            detail, timeline = visitors.visitor_with_timeline(view.workspace_id, visitor_id, query)
        except Malformed:
            return Redirect(f"/visitors?{urlencode({'search': visitor_id})}", status_code=302)
        return view.render(
            "visitors/visitor.html",
            parts=("timeline",),
            visitor=detail,
            timeline=timeline,
            websites=websites,
            names=names_of(websites),
        )

    return await respond(render)


ROUTES = (find_visitors, visitor)
