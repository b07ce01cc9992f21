"""The context of a report's panels: the query, and the services that answer it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.drivers.service import DriverService
from penstock.funnels.flows.service import FlowService
from penstock.funnels.insights.service import InsightService
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.periods.service import PeriodsService
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import ReadFunnel
from penstock.funnels.results.schema import ResultsQuery, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.funnels.verdicts.service import VerdictService
from penstock.http.schema import Query
from penstock.web.pages.funnel_page import FunnelPage
from penstock.web.pages.schema import ReportPageQuery

Parameters = Mapping[str, Any]
Q = TypeVar("Q", bound=Query)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ReportServices:
    """The services that answer questions about a funnel. Handlers get them as `report_services`."""

    results: ResultsService
    insights: InsightService
    comparisons: CompareService
    periods: PeriodsService
    verdicts: VerdictService
    drivers: DriverService
    flows: FlowService
    outcomes: OutcomeService


@dataclass
class ReportContext:
    """A query about a funnel, for one thread. Methods block and raise the services' errors.

    only_cached: whether to use cached results only, without waiting.
    """

    page: FunnelPage
    query: ReportPageQuery
    services: ReportServices
    only_cached: bool
    # `cached_property` is not used, because in Python 3.11 its lock makes the reports of all
    # readers wait.
    _shared_query: QueryContext | None = field(default=None, init=False)
    _report: ResultsRecord | None = field(default=None, init=False)

    @property
    def report(self) -> ResultsRecord:
        """The results, with the cohorts that the page shows. All panels share them."""
        if self._report is None:
            self._report = self.services.results.report(self.shared_query)
        return self._report

    @property
    def shared_query(self) -> QueryContext:
        """The page's query. Panels that use it count the same data."""
        if self._shared_query is None:
            query = self.query
            self._shared_query = self.prepare(
                page=query.page, pageSize=query.page_size, sort=query.sort, order=query.order
            )
        return self._shared_query

    def prepare(self, only: Parameters | None = None, **more: Any) -> QueryContext:
        """Prepare a query. only: a cohort, instead of the page's filter. more: other parameters."""
        parameters, page = self.page.parameters(**more), self.page
        if only is not None:
            parameters["cohort"] = json.dumps(only, ensure_ascii=False)
        query = ResultsQuery.model_validate(parameters)
        funnel = ReadFunnel(page.funnel.id, page.revision, page.saved_definition)
        return self.services.results.prepare(
            page.view.workspace_id, funnel, query, only_cached=self.only_cached
        )

    def ask(self, question: Callable[[QueryContext, Q], R], model: type[Q], more: Parameters) -> R:
        """Ask a question about the units that all panels share. more: its own parameters."""
        return question(self.shared_query, model.model_validate(self.page.parameters(**more)))
