"""The report of one funnel. The page opens at once; the bars and the tab load separately."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.insights.service import InsightService
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.results.service import ResultsService
from penstock.jobs.cancellable import CancellableResponse
from penstock.web.pages.funnel_page import FunnelPages, load_part
from penstock.web.pages.report import panels
from penstock.web.pages.schema import ReportPageQuery, Show
from penstock.web.view import View

TABS = {
    Show.COHORTS: "Cohorts",
    Show.TREND: "Trend",
    Show.TIMES: "Times",
    Show.COMPARE: "Compare",
    Show.NEXT: "What came next",
    Show.QUALITY: "Data quality",
}
_COHORT_TABS = (Show.COHORTS, Show.COMPARE)


@get("/funnels/{funnel_id:str}")
async def report(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    funnel_pages: NamedDependency[FunnelPages],
    results: NamedDependency[ResultsService],
    insights: NamedDependency[InsightService],
    comparisons: NamedDependency[CompareService],
    outcomes: NamedDependency[OutcomeService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    def render() -> Response[bytes]:
        query = view.query(ReportPageQuery)
        page = funnel_pages.load(funnel_id, query)
        tabs = {
            show: text
            for show, text in TABS.items()
            if show not in _COHORT_TABS or page.definition.breakdown_properties
        }
        show = query.show if query.show in tabs else next(iter(tabs))
        context = panels.ReportContext(
            view.workspace_id, funnel_id, page, query, results, insights, comparisons, outcomes
        )
        return view.render(
            "report/report.html",
            parts=("overview", "detail"),
            report=page,
            query=query,
            tabs=tabs,
            show=show,
            overview=load_part(view, "overview", lambda: panels.overview(context)),
            detail=load_part(view, "detail", lambda: panels.DETAILS[show](context)),
        )

    return await respond(render)


ROUTES = (report,)
