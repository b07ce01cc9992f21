"""The report on one funnel. The page opens immediately.

It includes the bars and the tab if their results are cached; otherwise they load separately.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from litestar import Response

from penstock.funnels.outcomes.schema import OutcomesQuery
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.funnel_page import FunnelPages
from penstock.web.pages.parts import load_parts
from penstock.web.pages.report.panels.cohorts import cohorts
from penstock.web.pages.report.panels.compare import compare
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.drivers import what_differs
from penstock.web.pages.report.panels.flows import paths
from penstock.web.pages.report.panels.next_events import next_events
from penstock.web.pages.report.panels.outcomes import build_of
from penstock.web.pages.report.panels.overview import overview
from penstock.web.pages.report.panels.periods import compare_periods
from penstock.web.pages.report.panels.quality import count_problems, quality
from penstock.web.pages.report.panels.times import times
from penstock.web.pages.report.panels.trend import trend
from penstock.web.pages.report.panels.verdict import verdict
from penstock.web.pages.schema import ReportPageQuery, Show
from penstock.web.view import View


class Tab(NamedTuple):
    """A tab of the report. panel: loads the data for the tab's template."""

    text: str
    panel: Callable[[ReportContext], dict[str, Any]]


TABS: Mapping[Show, Tab] = {
    Show.COHORTS: Tab("Cohorts", cohorts),
    Show.TREND: Tab("Trend", trend),
    Show.TIMES: Tab("Times", times),
    Show.COMPARE: Tab("Compare", compare),
    Show.NEXT: Tab("What came next", next_events),
    Show.DRIVERS: Tab("What differs", what_differs),
    Show.FLOWS: Tab("Flows", paths),
    Show.QUALITY: Tab("Data quality", quality),
}
_COHORT_TABS = (Show.COHORTS, Show.COMPARE)


def _detail(context: ReportContext, tab: Tab) -> dict[str, Any]:
    """Load a tab, and the number of data problems for the badge of their tab."""
    return {**tab.panel(context), "problems": count_problems(context)}


@slow_page("/funnels/{funnel_id:str}")
def report(
    view: View,
    funnel_id: str,
    funnel_pages: FunnelPages,
    funnel_queries: FunnelQueryRunner,
    outcomes: OutcomeService,
) -> Response[bytes]:
    query = view.query(ReportPageQuery, view.websites)
    page = funnel_pages.load(funnel_id, query)
    tabs = {
        show: tab.text
        for show, tab in TABS.items()
        if show not in _COHORT_TABS or page.definition.breakdown_properties
    }
    show = query.show if query.show in tabs else next(iter(tabs))
    only_cached = view.requested_part is None
    context = ReportContext(page, query, funnel_queries, outcomes, only_cached)
    loads = {
        "overview": partial(overview, context),
        "detail": partial(_detail, context, TABS[show]),
        "verdict": partial(verdict, context),
    }
    if query.compare is not None:
        loads["periods"] = partial(compare_periods, context)
    # Without a time zone in the address, the browser loads the parts using its own time zone.
    in_page = "timezone" in view.request.query_params
    parts: dict[str, Any] = {"periods": None, **load_parts(view, loads, in_page=in_page)}
    return view.render(
        "report/report.html",
        parts=tuple(loads),
        report=page,
        folders=funnel_pages.folders() if only_cached else {},
        query=query,
        tabs=tabs,
        show=show,
        **parts,
    )


@page("/funnels/{funnel_id:str}/outcomes")
def outcomes_build(view: View, funnel_id: str, outcomes: OutcomeService) -> Response[bytes]:
    """The build of stored outcomes, which the overview polls separately from its numbers."""
    build = build_of(outcomes, view.workspace_id, funnel_id, view.query(OutcomesQuery))
    return view.render("report/outcomes.html", build=build)


ROUTES = (report, outcomes_build)
