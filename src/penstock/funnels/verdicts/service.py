"""Reads the input for the verdict on a report: the report itself, its cohorts and the period
before.
"""

from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from penstock.base.calendar import period_before
from penstock.base.clock import iso
from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import HeadRecord, PeriodRecord
from penstock.funnels.results.schema import CohortRecord, ResultsRecord
from penstock.funnels.results.service import ResultsService
from penstock.funnels.verdicts.schema import VerdictQuery, VerdictRecord
from penstock.funnels.verdicts.sentences import largest_loss, verdict


class VerdictService:
    """Verdicts on reports. Its methods block, so call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner, results: ResultsService) -> None:
        self._runner, self._results = runner, results

    def verdict(
        self, workspace_id: WorkspaceId, funnel_id: str, query: VerdictQuery
    ) -> VerdictRecord:
        """Return the verdict on a saved funnel's report.

        Raises the same errors as `FunnelQueryRunner.prepare`.
        """
        source = SavedFunnel(funnel_id, query.revision)
        context = self._results.prepare(workspace_id, source, query)
        return self.judge(context, self._results.report(context), ZoneInfo(query.timezone))

    def judge(self, context: QueryContext, report: ResultsRecord, zone: ZoneInfo) -> VerdictRecord:
        """Return the verdict on the report of a prepared query. zone: time zone of its period."""
        loss = largest_loss(report.aggregate)
        sentences = verdict(
            report, self._earlier(context, zone), self._all_cohorts(context, report)
        )
        head = {name: getattr(report, name) for name in HeadRecord.model_fields}
        return VerdictRecord(**head, largest_loss=loss and loss.step, sentences=sentences)

    def _earlier(self, context: QueryContext, zone: ZoneInfo) -> ResultsRecord | None:
        """Return the report on the period of the same length just before, at the same age.

        None without a period or window. For attempts, only the settled ones are counted, and their
        outcome is final. They are therefore read as of today, so that stored outcomes can answer
        the query.
        """
        params, window_s = context.params, context.definition.window_s
        if params.start_ms is None or params.end_ms is None or window_s is None:
            return None
        start_ms, end_ms = period_before(params.start_ms, params.end_ms, zone)
        as_of_ms = params.evaluated_at_ms - (params.start_ms - start_ms)
        if context.definition.counting_unit is CountingUnit.VISITOR:
            return self._results.report(self._runner.move(context, start_ms, end_ms, as_of_ms))
        settled_end_ms = min(end_ms, as_of_ms - window_s * 1000)
        if settled_end_ms <= start_ms:
            return None
        settled = replace(
            params, start_ms=start_ms, end_ms=settled_end_ms, page=Page(1, MAX_PAGE_SIZE)
        )
        report = self._results.report(replace(context, params=settled))
        period = PeriodRecord(start_at=iso(start_ms), end_at=iso(end_ms))
        return report.model_copy(update={"period": period})

    def _all_cohorts(self, context: QueryContext, report: ResultsRecord) -> Sequence[CohortRecord]:
        """Return all cohorts of a report; none if they do not fit on the largest page."""
        if not context.definition.breakdown_properties or report.cohorts.total > MAX_PAGE_SIZE:
            return []
        if len(report.cohorts.data) < report.cohorts.total:
            params = replace(context.params, page=Page(1, MAX_PAGE_SIZE))
            report = self._results.report(replace(context, params=params))
        return report.cohorts.data
