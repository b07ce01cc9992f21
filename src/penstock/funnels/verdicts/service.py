"""Reads the input for the verdict on a report: the report itself, its cohorts and the previous
period.
"""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from penstock.base.calendar import period_before
from penstock.base.clock import iso
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import PeriodRecord
from penstock.funnels.results.schema import CohortRecord, ResultsRecord
from penstock.funnels.results.service import report_of
from penstock.funnels.verdicts.schema import VerdictQuery, VerdictRecord
from penstock.funnels.verdicts.sentences import largest_loss, verdict


def read_verdict(
    runner: FunnelQueryRunner, context: QueryContext, query: VerdictQuery
) -> VerdictRecord:
    """Returns the results in sentences, with the response that shows each phrase.

    It compares settled units with those of the period of the same length just before, at the same
    age.
    """
    report = report_of(runner, context)
    loss = largest_loss(report.aggregate)
    earlier = _earlier(runner, context, ZoneInfo(query.timezone))
    sentences = verdict(report, earlier, _all_cohorts(runner, context, report))
    return VerdictRecord(**report.head(), largest_loss=loss and loss.step, sentences=sentences)


def _earlier(
    runner: FunnelQueryRunner, context: QueryContext, zone: ZoneInfo
) -> ResultsRecord | None:
    """Return the report on the period of the same length just before, at the same age.

    None without a period or window. For attempts, only the settled ones are counted, and their
    outcome is final. They are therefore read as of today, so that stored outcomes can answer the
    query. zone: time zone of the period.
    """
    params, window_s = context.params, context.definition.window_s
    if params.start_ms is None or params.end_ms is None or window_s is None:
        return None
    start_ms, end_ms = period_before(params.start_ms, params.end_ms, zone)
    as_of_ms = params.evaluated_at_ms - (params.start_ms - start_ms)
    if context.definition.counting_unit is CountingUnit.VISITOR:
        return report_of(runner, runner.move(context, start_ms, end_ms, as_of_ms))
    settled_end_ms = min(end_ms, as_of_ms - window_s * 1000)
    if settled_end_ms <= start_ms:
        return None
    settled = context.with_params(
        start_ms=start_ms, end_ms=settled_end_ms, page=Page(1, MAX_PAGE_SIZE)
    )
    period = PeriodRecord(start_at=iso(start_ms), end_at=iso(end_ms))
    return report_of(runner, settled).model_copy(update={"period": period})


def _all_cohorts(
    runner: FunnelQueryRunner, context: QueryContext, report: ResultsRecord
) -> Sequence[CohortRecord]:
    """Return all cohorts of a report; none if they do not fit on the largest page."""
    if not context.definition.breakdown_properties or report.cohorts.total > MAX_PAGE_SIZE:
        return []
    if len(report.cohorts.data) < report.cohorts.total:
        report = report_of(runner, context.with_params(page=Page(1, MAX_PAGE_SIZE)))
    return report.cohorts.data
