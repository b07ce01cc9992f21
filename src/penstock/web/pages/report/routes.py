"""The report on one funnel. The page opens immediately.

It includes the bars and the tab if their results are cached; otherwise they load separately.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from litestar import Response

from penstock.annotations.service import AnnotationService
from penstock.base.wording import listed
from penstock.funnels.outcomes.schema import OutcomesQuery
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.questions import FLOWS, NEXT
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.funnel_page import FunnelPages
from penstock.web.pages.parts import load_parts
from penstock.web.pages.report.panels.audience import audience
from penstock.web.pages.report.panels.cohorts import cohorts
from penstock.web.pages.report.panels.compare import compare
from penstock.web.pages.report.panels.context import Panel, ReportContext, answer_to
from penstock.web.pages.report.panels.drivers import what_differs
from penstock.web.pages.report.panels.forecasts import earlier_forecasts, forecast
from penstock.web.pages.report.panels.other_tools import beside, other_tools
from penstock.web.pages.report.panels.outcomes import build_of
from penstock.web.pages.report.panels.overview import overview
from penstock.web.pages.report.panels.quality import count_problems, quality
from penstock.web.pages.report.panels.times import times
from penstock.web.pages.report.panels.trend import trend, trend_with_forecasts
from penstock.web.pages.report.panels.verdict import verdict
from penstock.web.pages.schema import ReportPageQuery
from penstock.web.view import View


class Tab(NamedTuple):
    """A tab below the bars of a report.

    panel: loads the data for the tab's template. needs_cohorts, needs_window: whether only a funnel
    with breakdown properties, or with a conversion window, has the tab.
    """

    text: str
    panel: Panel
    needs_cohorts: bool = False
    needs_window: bool = False


TABS: Mapping[str, Tab] = {
    "cohorts": Tab("Cohorts", cohorts, needs_cohorts=True),
    "trend": Tab("Trend", trend),
    "times": Tab("Times", times),
    "compare": Tab("Compare", compare, needs_cohorts=True),
    "next": Tab("What came next", answer_to(NEXT)),
    "drivers": Tab("What differs", what_differs),
    "flows": Tab("Flows", answer_to(FLOWS)),
    "forecasts": Tab("Forecasts", earlier_forecasts, needs_window=True),
    "quality": Tab("Data quality", quality),
    "otherTools": Tab("Other tools", other_tools),
}
"""All tabs, by the parameter `show` of a report's address and the name of their template."""


def _detail(context: ReportContext, tab: Tab) -> dict[str, Any]:
    """Load a tab, and the number of data problems for the badge of their tab.

    beside: the other tool that the reader chose, which only some tabs count like.
    """
    own = {"problems": count_problems(context), "beside": beside(context)}
    return own | tab.panel(context)


@slow_page("/funnels/{funnel_id:str}")
def report(
    view: View,
    funnel_id: str,
    funnel_pages: FunnelPages,
    funnel_queries: FunnelQueryRunner,
    outcomes: OutcomeService,
    annotations: AnnotationService,
) -> Response[bytes]:
    query = view.query(ReportPageQuery, view.websites)
    if query.show not in {None, *TABS}:
        names = listed([f"'{name}'" for name in TABS], "or")
        view.ignored["show"] = f"Must be {names}."
    page = funnel_pages.load(funnel_id, query)
    tabs = {
        show: tab.text
        for show, tab in TABS.items()
        if (page.definition.breakdown_properties or not tab.needs_cohorts)
        and (page.has_window or not tab.needs_window)
    }
    show = query.show if query.show in tabs else next(iter(tabs))
    only_cached = view.requested_part is None
    context = ReportContext(page, query, funnel_queries, outcomes, annotations, only_cached)
    loads = {
        "overview": partial(overview, context),
        "detail": partial(_detail, context, TABS[show]),
        "verdict": partial(verdict, context),
        "audience": partial(audience, context),
        "forecast": partial(forecast, context),
    }
    if show == "trend":
        loads["bands"] = partial(trend_with_forecasts, context)
    # Without a time zone in the address, the browser loads the parts using its own time zone.
    in_page = "timezone" in view.request.query_params
    parts: dict[str, Any] = {"bands": None, **load_parts(view, loads, in_page=in_page)}
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
