"""Compares a period with an earlier one. Source: funnel semantics, "Comparison of periods at equal
age".
"""

from collections.abc import Iterator

from penstock.base.clock import iso
from penstock.base.rates import Share
from penstock.base.scalar import tagged
from penstock.funnels.comparisons.proportions import MIN_UNITS, newcombe_interval
from penstock.funnels.insights.schema import TrendBucketRecord, TrendQuery
from penstock.funnels.insights.service import read_trend
from penstock.funnels.periods.schema import (
    ChangeRecord,
    CohortChangeRecord,
    Conclusion,
    DayChangeRecord,
    EarlierPeriodRecord,
    PeriodsQuery,
    PeriodsRecord,
    StepChangeRecord,
)
from penstock.funnels.periods.sentences import summary
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import unfit_parameters
from penstock.funnels.queries.schema import CohortKeyRecord
from penstock.funnels.results.schema import AggregateRecord, CohortRecord, RangeRecord
from penstock.funnels.results.service import report_of
from penstock.funnels.statements.query import Statement
from penstock.warehouse.queries import load

_LATE_SHARE = 0.1
"""Share of late events from which the earlier period looks better than it did then."""


def compare_periods(
    runner: FunnelQueryRunner, context: QueryContext, query: PeriodsQuery
) -> PeriodsRecord:
    """Compares a period with an earlier one, which is counted as it looked when it was as old."""
    if context.definition.window_s is None:
        raise unfit_parameters(
            {"window": "Without a conversion window, no unit settles. Send a window, such as 30d."}
        )
    span = (query.compare_start_at, query.compare_end_at)
    as_of_ms = context.params.evaluated_at_ms - (query.start_at - query.compare_start_at)
    earlier_context = runner.move(context, *span, as_of_ms)
    report, earlier = (report_of(runner, part) for part in (context, earlier_context))
    now, before = report.aggregate, earlier.aggregate
    return PeriodsRecord(
        **report.head(),
        summary=summary(now, before, report.period, earlier.period, context.definition.unit_word),
        aggregate=now,
        earlier=EarlierPeriodRecord(
            period=earlier.period,
            evaluated_at=iso(earlier_context.params.evaluated_at_ms),
            aggregate=before,
        ),
        settled_rate=_completion_change(now, before),
        steps=list(_step_changes(now, before)),
        cohorts=list(_cohort_changes(report.cohorts.data, earlier.cohorts.data)),
        trend=_trend(runner, context, earlier_context, query),
        notes=list(_notes(runner, earlier_context)),
    )


def _trend(
    runner: FunnelQueryRunner, context: QueryContext, earlier: QueryContext, query: PeriodsQuery
) -> list[DayChangeRecord] | None:
    """Return the days of both periods side by side; None if there are too many."""
    by_day = TrendQuery.model_validate({"timezone": query.timezone})
    if by_day.edges_or_none(query.start_at, query.end_at - 1) is None:
        return None
    days, days_before = (read_trend(runner, part, by_day).data for part in (context, earlier))
    return [
        DayChangeRecord(
            bucket=day,
            bucket_before=day_before,
            settled_rate=change(*map(_settled_share, (day, day_before))),
        )
        # Their numbers of days differ only if a time zone skipped a day.
        for day, day_before in zip(days, days_before, strict=False)
    ]


def _notes(runner: FunnelQueryRunner, earlier: QueryContext) -> Iterator[str]:
    params = earlier.params
    statement = Statement(
        load("penstock.funnels.periods", "count_late_events"),
        {"websites": list(params.website_ids), "start": params.start_ms, "end": params.end_ms},
    )
    [row] = runner.fetch_events(earlier, statement).rows
    if row["events"] and row["late"] / row["events"] >= _LATE_SHARE:
        yield (
            f"{row['late'] / row['events']:.0%} of the earlier period's events arrived more "
            "than an hour after they happened, so it looks better here than it did then."
        )


def change(now: Share | None, before: Share | None) -> ChangeRecord:
    """Return the change of a rate; None if no unit is settled."""
    rates = {
        "rate": None if now is None else round(now.rate, 4),
        "rate_before": None if before is None else round(before.rate, 4),
    }
    if now is None or before is None:
        return ChangeRecord(
            **rates, difference=None, difference_interval=None, answer=Conclusion.TOO_EARLY
        )
    low, high = newcombe_interval(now, before)
    if min(now.whole, before.whole) < MIN_UNITS:
        answer = Conclusion.TOO_EARLY
    elif low > 0:
        answer = Conclusion.HIGHER
    else:
        answer = Conclusion.LOWER if high < 0 else Conclusion.NO_CLEAR_DIFFERENCE
    return ChangeRecord(
        **rates,
        difference=round(now.rate - before.rate, 4),
        difference_interval=RangeRecord.rounded((low, high)),
        answer=answer,
    )


def _settled_share(bucket: TrendBucketRecord) -> Share | None:
    return _share(bucket.completed - bucket.early_completions, bucket.settled)


def _completion_change(now: AggregateRecord, before: AggregateRecord) -> ChangeRecord:
    shares = [_share(part.steps[-1].settled, part.settled) for part in (now, before)]
    return change(*shares)


def _step_changes(now: AggregateRecord, before: AggregateRecord) -> Iterator[StepChangeRecord]:
    for index, (step, step_before) in enumerate(zip(now.steps, before.steps, strict=True)):
        previous = None
        if index:
            previous = change(
                _share(step.settled, now.steps[index - 1].settled),
                _share(step_before.settled, before.steps[index - 1].settled),
            )
        yield StepChangeRecord(
            step=step.step,
            count=step.count,
            count_before=step_before.count,
            from_start=change(
                _share(step.settled, now.settled), _share(step_before.settled, before.settled)
            ),
            from_previous=previous,
        )


def _cohort_changes(
    now: list[CohortRecord], before: list[CohortRecord]
) -> Iterator[CohortChangeRecord]:
    earlier = {_key(cohort): cohort for cohort in before}
    for cohort in now:
        if (same := earlier.get(_key(cohort))) is not None:
            yield CohortChangeRecord(
                cohort=cohort.cohort,
                label=cohort.label,
                entered=cohort.entered,
                entered_before=same.entered,
                settled_rate=_completion_change(cohort, same),
            )


def _key(cohort: CohortKeyRecord) -> tuple[str, ...]:
    """Return the values of a cohort with their types: `1`, `"1"` and `true` differ."""
    return tuple(map(tagged, cohort.cohort.values()))


def _share(part: int, whole: int) -> Share | None:
    return Share(part, whole) if whole else None
