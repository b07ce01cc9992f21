"""What the panels of a report get: the query, and the services that answer it."""

from dataclasses import dataclass
from typing import Any

from penstock.base.ids import WorkspaceId
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.insights.service import InsightService
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.web.pages.funnel_page import FunnelPage
from penstock.web.pages.schema import ReportPageQuery


@dataclass(frozen=True, slots=True)
class ReportContext:
    """A query about a funnel. Methods block, and raise as the services do."""

    workspace_id: WorkspaceId
    funnel_id: str
    page: FunnelPage
    query: ReportPageQuery
    results: ResultsService
    insights: InsightService
    comparisons: CompareService
    outcomes: OutcomeService

    def result(self, **more: Any) -> ResultsRecord:
        """The results. more: query parameters beside the selection of the page."""
        return self.results.report(self.prepare(**more))

    def prepare(self, **more: Any) -> QueryContext:
        """The query of the results, for several figures over the same data."""
        query = ResultsQuery.model_validate(self.page.parameters(**more))
        return self.results.prepare(self.workspace_id, self.funnel_id, query)
