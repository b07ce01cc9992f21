"""What the panels of a report get: the query, and the services that answer it."""

from dataclasses import dataclass, field
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


@dataclass
class ReportContext:
    """A query about a funnel, for one thread. Methods block, and raise as the services do.

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
    # Not `cached_property`: in Python 3.11 one report would wait for those of all other readers.
    _prepared: QueryContext | None = field(default=None, init=False)
    _report: ResultsRecord | None = field(default=None, init=False)

    @property
    def report(self) -> ResultsRecord:
        """The results with the cohorts that the page shows: one answer for all panels."""
        if self._report is None:
            self._report = self.results.report(self.prepared)
        return self._report

    @property
    def prepared(self) -> QueryContext:
        """The query of the page, for figures over the same data."""
        if self._prepared is None:
            query = self.query
            self._prepared = self.prepare(
                page=query.page, pageSize=query.page_size, sort=query.sort, order=query.order
            )
        return self._prepared

    def prepare(self, **more: Any) -> QueryContext:
        """more: as of `FunnelPage.parameters`."""
        query, page = ResultsQuery.model_validate(self.page.parameters(**more)), self.page
        funnel = ReadFunnel(page.funnel.id, page.revision, page.definition)
        return self.results.prepare(self.workspace_id, funnel, query, only_cached=self.only_cached)
