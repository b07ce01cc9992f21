"""Reads the input for the verdict on a report: the report itself, its cohorts and the period
before.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import HeadRecord
from penstock.funnels.results.schema import CohortRecord, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.funnels.verdicts.schema import VerdictQuery, VerdictRecord
from penstock.funnels.verdicts.sentences import largest_loss, verdict


class VerdictService:
    """Verdicts on reports. Its methods block, so call them from a worker thread."""

    def __init__(self, results: ResultsService) -> None:
        self._results = results

    def verdict(
        self, workspace_id: WorkspaceId, funnel_id: str, query: VerdictQuery
    ) -> VerdictRecord:
        """Return the verdict on a saved funnel's report.

        Raises the same errors as `FunnelQueryRunner.prepare`.
        """
        source = SavedFunnel(funnel_id, query.revision)
        context = self._results.prepare(workspace_id, source, query)
        return self.judge(context, self._results.report(context))

    def judge(self, context: QueryContext, report: ResultsRecord) -> VerdictRecord:
        """Return the verdict on the report of a prepared query."""
        loss = largest_loss(report.aggregate)
        sentences = verdict(report, self._earlier(context), self._all_cohorts(context, report))
        head = {name: getattr(report, name) for name in HeadRecord.model_fields}
        return VerdictRecord(**head, largest_loss=loss and loss.step, sentences=sentences)

    def _earlier(self, context: QueryContext) -> ResultsRecord | None:
        """Return the report on the period of the same length just before; None without a period."""
        start_ms, end_ms = context.params.start_ms, context.params.end_ms
        if start_ms is None or end_ms is None or context.definition.window_s is None:
            return None
        params = replace(
            context.params,
            start_ms=start_ms - (end_ms - start_ms),
            end_ms=start_ms,
            page=Page(1, MAX_PAGE_SIZE),
        )
        return self._results.report(replace(context, params=params))

    def _all_cohorts(self, context: QueryContext, report: ResultsRecord) -> Sequence[CohortRecord]:
        """Return all cohorts of a report; none if they do not fit on the largest page."""
        if not context.definition.breakdown_properties or report.cohorts.total > MAX_PAGE_SIZE:
            return []
        if len(report.cohorts.data) < report.cohorts.total:
            params = replace(context.params, page=Page(1, MAX_PAGE_SIZE))
            report = self._results.report(replace(context, params=params))
        return report.cohorts.data
