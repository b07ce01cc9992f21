"""Visitors: finding them, and everything about one."""

from urllib.parse import unquote, urlencode

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Redirect

from penstock.accounts.service import AccountService
from penstock.activity.schema import TimelineQuery, VisitorsQuery
from penstock.activity.visitors import VisitorService
from penstock.base.errors import Malformed
from penstock.http.paths import sent_after
from penstock.jobs.answered import Answered
from penstock.web.view import View, names_of, without_foreign


@get("/visitors")
async def find_visitors(
    view: NamedDependency[View],
    accounts: NamedDependency[AccountService],
    visitors: NamedDependency[VisitorService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        websites = accounts.websites(view.workspace_id)
        query = without_foreign(view.query(VisitorsQuery), websites)
        found = visitors.visitors(view.workspace_id, query)
        return view.render("visitors/list.html", parts=("list",), query=query, found=found, websites=websites, names=names_of(websites))

    return await answered(made)


@get("/visitors/{visitor_id:path}")
async def visitor(
    view: NamedDependency[View],
    visitor_id: FromPath[str],
    accounts: NamedDependency[AccountService],
    visitors: NamedDependency[VisitorService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """An ID that stands for several visitors leads to the list of them."""

    def made() -> Response[bytes]:
        visitor_id = unquote(sent_after(view.request, "/visitors/"))
        websites = accounts.websites(view.workspace_id)
        query = without_foreign(view.query(TimelineQuery), websites)
        try:
            one, found = visitors.visitor_with_timeline(view.workspace_id, visitor_id, query)
        except Malformed:
            return Redirect(f"/visitors?{urlencode({'search': visitor_id})}", status_code=302)
        return view.render("visitors/visitor.html", parts=("timeline",), one=one, found=found, websites=websites, names=names_of(websites))

    return await answered(made)


ROUTES = (find_visitors, visitor)
