"""One page of the table of cohorts."""

from typing import Any

from penstock.base.paging import Listing, Page
from penstock.web.pages.report.panels.context import ReportContext


def cohorts(context: ReportContext) -> dict[str, Any]:
    cohorts = context.report.cohorts
    page = Page(context.query.page, context.query.page_size)
    return {
        "cohorts": Listing(cohorts.data, page, cohorts.total),
        "properties": context.page.definition.breakdown_properties,
    }
