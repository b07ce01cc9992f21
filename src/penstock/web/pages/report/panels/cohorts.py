"""One page of the table of cohorts."""

from typing import Any

from penstock.base.paging import Listing, Page
from penstock.funnels.questions import RESULTS
from penstock.web.pages.report.panels.context import ReportContext


def cohorts(context: ReportContext) -> dict[str, Any]:
    query = context.query
    report = context.report
    if query.search:  # The bars and all other panels show all cohorts.
        searched = context.prepare(
            page=query.page,
            pageSize=query.page_size,
            sort=query.sort,
            order=query.order,
            search=query.search,
        )
        report = context.ask(RESULTS, {}, searched)
    page = Page(query.page, query.page_size)
    return {
        "cohorts": Listing(report.cohorts.data, page, report.cohorts.total),
        "properties": context.page.definition.breakdown_properties,
    }
