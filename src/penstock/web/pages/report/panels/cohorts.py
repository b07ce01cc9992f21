"""The cohorts: one page of their table."""

from typing import Any

from penstock.base.paging import Listing, Page
from penstock.web.pages.report.panels.context import ReportContext


def cohorts(context: ReportContext) -> dict[str, Any]:
    query = context.query
    results = context.result(
        page=query.page, pageSize=query.page_size, sort=query.sort, order=query.order
    )
    page = Page(query.page, query.page_size)
    return {
        "cohorts": Listing(results.cohorts.data, page, results.cohorts.total),
        "properties": context.page.definition.breakdown_properties,
    }
