"""One page of the table of cohorts."""

from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.paging import Listing, Page
from penstock.funnels.forecasts.schema import NoForecast
from penstock.funnels.questions import RESULTS
from penstock.funnels.shown_forecasts import lacks, shown_forecast
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.periods import compared
from penstock.web.pages.report.panels.segments import key_of, segments


def cohorts(context: ReportContext) -> dict[str, Any]:
    """Return the cohorts. colours: the colour of each cohort that has its own bars, 0 for those
    that can have them; empty if there are no such bars.
    """
    query = context.query
    searched = None
    if query.search:  # The bars and all other panels show all cohorts.
        searched = context.prepare(
            page=query.page,
            pageSize=query.page_size,
            sort=query.sort,
            order=query.order,
            search=query.search,
        )
    try:
        report = context.forecast_report(searched)
    except PenstockError:  # The table does not depend on forecasts, which may take too long.
        report = context.ask(RESULTS, {}, searched)
    page = Page(query.page, query.page_size)
    colours = {}
    if len(context.largest_cohorts) > 1:
        shown = {segment.key: segment.colour for segment in segments(context)}
        keys = [key_of(cohort.cohort) for cohort in context.largest_cohorts]
        colours = {key: shown.get(key, 0) for key in keys}
    return {
        "cohorts": Listing(report.cohorts.data, page, report.cohorts.total),
        "properties": context.page.definition.breakdown_properties,
        "compared": compared(context),
        "colours": colours,
        "key_of": key_of,
        "forecasts": [shown_forecast(cohort.forecast) for cohort in report.cohorts.data],
        "are_left_out": any(
            lacks(cohort.forecast, NoForecast.LEFT_OUT) for cohort in report.cohorts.data
        ),
    }
