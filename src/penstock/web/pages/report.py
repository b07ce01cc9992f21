"""The report of one funnel. The page shows at once; its two parts, the bars and what is chosen below them, are loaded by themselves."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.insights.service import InsightService
from penstock.funnels.results.service import ResultsService
from penstock.jobs.answered import Answered
from penstock.web.pages import panels
from penstock.web.pages.asked import ReportAsked, Show
from penstock.web.pages.subject import Subjects, part_of
from penstock.web.view import View

TABS = {
    Show.COHORTS: "Cohorts",
    Show.TREND: "Trend",
    Show.TIMES: "Times",
    Show.COMPARE: "Compare",
    Show.NEXT: "What came next",
    Show.QUALITY: "Data quality",
}
_OF_COHORTS = (Show.COHORTS, Show.COMPARE)


@get("/funnels/{funnel_id:str}")
async def report(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    subjects: NamedDependency[Subjects],
    results: NamedDependency[ResultsService],
    insights: NamedDependency[InsightService],
    comparisons: NamedDependency[CompareService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        asked = view.query(ReportAsked)
        subject = subjects.of(funnel_id, asked)
        tabs = {show: text for show, text in TABS.items() if show not in _OF_COHORTS or subject.definition.breakdown_properties}
        show = asked.show if asked.show in tabs else next(iter(tabs))
        sources = panels.Sources(view.workspace_id, funnel_id, subject, asked, results, insights, comparisons)
        return view.render(
            "report/report.html",
            parts=("overview", "detail"),
            report=subject,
            asked=asked,
            tabs=tabs,
            show=show,
            overview=part_of(view, "overview", lambda: panels.overview(sources)),
            detail=part_of(view, "detail", lambda: panels.DETAILS[show](sources)),
        )

    return await answered(made)


ROUTES = (report,)
