"""The context of a report's panels: the query, and what answers it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from penstock.annotations.service import AnnotationService
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.funnels.forecasts.schema import NoForecast
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import ReadFunnel
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.queries.single_flight_cache import NotCached
from penstock.funnels.questions import RESULTS, FunnelQuestion
from penstock.funnels.results.schema import CohortRecord, ResultsQuery, ResultsRecord
from penstock.funnels.shown_forecasts import lacks
from penstock.funnels.statements.flows import Where
from penstock.web.pages.funnel_page import FunnelPage
from penstock.web.pages.schema import ReportPageQuery

Parameters = Mapping[str, Any]
Q = TypeVar("Q", bound=PeriodQuery)
R = TypeVar("R", bound=BaseModel)


@dataclass
class ReportContext:
    """A query about a funnel, for one thread. Methods block and raise the services' errors.

    only_cached: whether to use cached results only, without waiting.
    """

    page: FunnelPage
    query: ReportPageQuery
    runner: FunnelQueryRunner
    outcomes: OutcomeService
    annotations: AnnotationService
    only_cached: bool
    # `cached_property` is not used, because in Python 3.11 its lock makes the reports of all
    # readers wait.
    _shared_query: QueryContext | None = field(default=None, init=False)
    _report: ResultsRecord | None = field(default=None, init=False)

    @property
    def report(self) -> ResultsRecord:
        """The results, with the cohorts that the page shows. All panels share them."""
        if self._report is None:
            self._report = self.ask(RESULTS, {})
        return self._report

    def forecast_report(self, prepared: QueryContext | None = None) -> ResultsRecord:
        """Return results with forecasts. If they have to be made first, the page itself does not
        wait for that.

        prepared: see `ask`.
        """
        report = self.ask(RESULTS, {"forecast": "true"}, prepared)
        if self.only_cached and lacks(report.forecast, NoForecast.NOT_READY):
            raise NotCached
        return report

    @property
    def shared_query(self) -> QueryContext:
        """The page's query. Panels that use it count the same data."""
        if self._shared_query is None:
            query = self.query
            self._shared_query = self.prepare(
                page=query.page, pageSize=query.page_size, sort=query.sort, order=query.order
            )
        return self._shared_query

    @property
    def largest_cohorts(self) -> Sequence[CohortRecord]:
        """The cohorts with the most entries, at most a hundred."""
        cohorts = self.report.cohorts
        if len(cohorts.data) == cohorts.total:
            return sorted(cohorts.data, key=lambda cohort: -cohort.entered)
        largest = self.prepare(page=1, pageSize=MAX_PAGE_SIZE, sort="entered", order="desc")
        return self.ask(RESULTS, {}, largest).cohorts.data

    @property
    def pair(self) -> tuple[int, int] | None:
        """The two steps that the reader chose; None for none, and for steps that do not fit."""
        first, _, last = (self.query.pair or "").partition("-")
        if not last or not 1 <= int(first) < int(last) <= len(self.page.required_steps):
            return None
        return int(first), int(last)

    def prepare(self, only: Parameters | None = None, **more: Any) -> QueryContext:
        """Prepare a query. only: a cohort, instead of the page's filter. more: other parameters."""
        parameters, page = self.page.parameters(**more), self.page
        if only is not None:
            parameters["cohort"] = json.dumps(only, ensure_ascii=False)
        query = ResultsQuery.model_validate(parameters)
        return self.runner.prepare(
            page.view.workspace_id,
            ReadFunnel(page.funnel.id, page.revision, page.saved_definition),
            query.selection(),
            only_cached=self.only_cached,
        )

    def chosen(self, question: FunnelQuestion[Any, Any]) -> dict[str, Any]:
        """Return the parameters of a question that the reader chose on the page."""
        query, outcome, where = self.query, self.query.outcome, self.query.where
        if not self.page.has_window:  # without a window, units never drop off
            outcome = "pending"
            where = Where.BETWEEN if where is Where.AFTER else where
        parameters = {
            "where": where,
            "step": min(query.step, len(self.page.required_steps) - 1),
            "outcome": None if outcome == "both" else outcome,
            "of": query.of,
            **query.buckets(),
        }
        fields = question.query.model_fields.items()
        names = {info.alias or name for name, info in fields}
        if "where" in names and where is Where.BETWEEN and self.pair is not None:
            parameters |= {"step": self.pair[0], "toStep": self.pair[1]}
        return {name: value for name, value in parameters.items() if name in names}

    def ask(
        self,
        question: FunnelQuestion[Q, R],
        more: Parameters,
        prepared: QueryContext | None = None,
    ) -> R:
        """Answer a question about the units that all panels share, or about another prepared query.

        more: parameters of the question; see `FunnelPage.parameters`.
        """
        query = question.query.model_validate(self.page.parameters(**more))
        return question.answer(self.runner, prepared or self.shared_query, query)


Panel = Callable[[ReportContext], dict[str, Any]]
"""Loads the data for a part of a report. It blocks, and raises the services' errors."""


def answer_to(question: FunnelQuestion[Q, R]) -> Panel:
    """Return the panel that shows the answer to a question and needs nothing else.

    Its template gets the answer as `record`, and the question's parameters as `more`.
    """

    def panel(context: ReportContext) -> dict[str, Any]:
        more = context.chosen(question)
        return {"record": context.ask(question, more), "more": more}

    return panel
