"""What the panels of a report get: the query, and the services that answer it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.base.ids import WorkspaceId
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.insights.service import InsightService
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import ReadFunnel
from penstock.funnels.results.schema import ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.web.pages.funnel_page import FunnelPage
from penstock.web.pages.schema import ReportPageQuery


@dataclass(frozen=True)
class ReportContext:
    """A query about a funnel. Methods block, and raise as the services do.

    only_cached: whether the panels want only what is known without waiting.
    """

    workspace_id: WorkspaceId
    funnel_id: str
    page: FunnelPage
    query: ReportPageQuery
    results: ResultsService
    insights: InsightService
    comparisons: CompareService
    outcomes: OutcomeService
    only_cached: bool

    @cached_property
    def report(self) -> ResultsRecord:
        """The results with the cohorts that the page shows: one answer for all panels."""
        return self.results.report(self.prepared)

    @cached_property
    def prepared(self) -> QueryContext:
        """The query of the page, for figures over the same data."""
        query = self.query
        return self.prepare(
            page=query.page, pageSize=query.page_size, sort=query.sort, order=query.order
        )

    def prepare(self, **more: Any) -> QueryContext:
        """more: as of `FunnelPage.parameters`."""
        query, page = ResultsQuery.model_validate(self.page.parameters(**more)), self.page
        funnel = ReadFunnel(page.funnel.id, page.revision, page.definition)
        return self.results.prepare(self.workspace_id, funnel, query, only_cached=self.only_cached)
