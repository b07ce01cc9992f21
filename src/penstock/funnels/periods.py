"""Compares a period with an earlier one, both at the same age.

Source: funnel semantics, "Comparison of periods at equal age".
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import MISSING, Field, ValidationInfo, field_validator

from penstock.base.clock import iso, parse_time
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.base.rates import Share, percent
from penstock.base.scalar import tagged
from penstock.base.wording import count_of, day_words
from penstock.funnels.comparisons.proportions import MIN_UNITS, newcombe_interval
from penstock.funnels.comparisons.words import change_words, period_words
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.forecasts.service import forecasts_of
from penstock.funnels.late_events import late_share
from penstock.funnels.other_tools.schema import CountLikeRecord, LikeQuery
from penstock.funnels.other_tools.service import count_like
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import Selection, unfit_parameters
from penstock.funnels.queries.schema import CohortKeyRecord, CohortQuery, HeadRecord, PeriodRecord
from penstock.funnels.results.schema import (
    AggregateRecord,
    CohortRecord,
    RangeRecord,
    ResultsRecord,
)
from penstock.funnels.results.service import report_of
from penstock.funnels.trends import TrendBucketRecord, TrendQuery, read_trend
from penstock.http.period import AS_TIME, TIME, InTimezone, read_time_ms
from penstock.http.schema import Rate, Record, RuleBroken

_Completions = AggregateRecord | TrendBucketRecord

_LATE_SHARE = 0.1
"""Excess in the share of late events from which the earlier period looks better than it did."""


class PeriodsQuery(CohortQuery, InTimezone, LikeQuery):
    """Query parameters for a comparison of two periods."""

    start_at: Annotated[int, AS_TIME, Field(description=f"Start of the later period: {TIME}.")]
    end_at: Annotated[int, AS_TIME]
    """End of the later period."""
    compare_start_at: Annotated[
        int, AS_TIME, Field(description=f"Start of the earlier period, before startAt: {TIME}.")
    ]
    compare_end_at: Annotated[int, AS_TIME]
    """End of the earlier period, which has as many days of `timezone` as the period from startAt to
    endAt.
    """

    forecast: bool = False
    """true: also forecast where the rate of the later period settles."""

    _read_compared = field_validator("compare_start_at", "compare_end_at", mode="before")(
        read_time_ms
    )

    @field_validator("start_at", "end_at", mode="before")
    @classmethod
    def _is_sent(cls, sent: Any) -> Any:
        if sent is None:
            raise RuleBroken("required", "Send startAt and endAt, the period to compare.")
        return sent

    @field_validator("compare_start_at")
    @classmethod
    def _is_earlier(cls, compare_start_ms: int, info: ValidationInfo) -> int:
        if "start_at" not in info.data:
            return compare_start_ms  # startAt already has an error
        if compare_start_ms >= info.data["start_at"]:
            raise RuleBroken("not_earlier", "Must be before startAt.")
        return compare_start_ms

    @field_validator("compare_end_at")
    @classmethod
    def _has_as_many_days(cls, compare_end_ms: int, info: ValidationInfo) -> int:
        sent = info.data
        starts_and_end = ("start_at", "end_at", "compare_start_at", "timezone")
        if any(sent.get(name) is None for name in starts_and_end):
            return compare_end_ms  # one of these already has an error
        start_ms, end_ms, compare_start_ms = (sent[name] for name in starts_and_end[:3])
        if compare_end_ms <= compare_start_ms:
            raise RuleBroken("ends_before_start", "Must be after compareStartAt.")
        zone = ZoneInfo(sent["timezone"])
        days = _days(start_ms, end_ms, zone)
        days_before = _days(compare_start_ms, compare_end_ms, zone)
        if days != days_before:
            raise RuleBroken(
                "other_length",
                f"Both periods need as many days: the earlier one has {days_before}, "
                f"the other {days}.",
            )
        return compare_end_ms

    def selection(self) -> Selection:
        return replace(super().selection(), page=Page(1, MAX_PAGE_SIZE))


def _days(start_ms: int, end_ms: int, zone: ZoneInfo) -> int:
    """Return the number of calendar days that a period touches."""
    first, last = (
        datetime.fromtimestamp(at_ms / 1000, zone).date() for at_ms in (start_ms, end_ms - 1)
    )
    return (last - first).days + 1


class Conclusion(StrEnum):
    """The conclusion about a change. TOO_EARLY: too few units are settled in one period."""

    HIGHER = "higher"
    LOWER = "lower"
    NO_CLEAR_DIFFERENCE = "no_clear_difference"
    TOO_EARLY = "too_early"


class ChangeRecord(Record):
    """The change of a rate over settled units."""

    rate: Rate | None
    rate_before: Rate | None
    difference: Rate | None
    """rate - rateBefore; null if one of them is null."""
    difference_interval: RangeRecord | None
    """95% confidence interval of the difference (Newcombe)."""
    answer: Conclusion
    """`higher` or `lower` if the interval excludes 0. `too_early`: fewer than 30 settled units in
    one of the periods.
    """


SoFar = Annotated[
    ChangeRecord,
    Field(
        description="The same change over all eligible units, settled or not. Both periods have "
        "the same age, so it compares periods that are too young for settled units. `too_early`: "
        "fewer than 30 eligible units in one of the periods."
    ),
]


class StepChangeRecord(Record):
    step: int
    count: int
    count_before: int
    from_start: ChangeRecord
    """Share of the settled units that reached the step."""
    from_previous: ChangeRecord | None
    """Share of those that reached the step before; null for step 1."""
    so_far: SoFar


class CohortChangeRecord(CohortKeyRecord):
    """The change of one cohort that entered in both periods."""

    entered: int
    entered_before: int
    settled_rate: ChangeRecord
    so_far: SoFar
    steps: list[StepChangeRecord]


class DayChangeRecord(Record):
    """The change of one day: the first, second or later day of both periods."""

    bucket: TrendBucketRecord
    bucket_before: TrendBucketRecord
    settled_rate: ChangeRecord


class EarlierPeriodRecord(Record):
    period: PeriodRecord
    evaluated_at: str
    """Later events were not read: the period was as old then."""
    aggregate: AggregateRecord
    count_like: CountLikeRecord | MISSING = MISSING
    """Present only if the request has `countLike`."""


class PeriodsRecord(HeadRecord):
    """Two periods at the same age."""

    summary: Annotated[str, Field(description="What changed, in a sentence or two.")]
    aggregate: AggregateRecord
    forecast: ForecastRecord | MISSING | None = MISSING
    """Where its rate settles; null if no unit is open. Present only if the request has
    `forecast=true`.
    """
    count_like: CountLikeRecord | MISSING = MISSING
    """The later period by the rules of the other tool. Present only if the request has `countLike`.
    """
    earlier: EarlierPeriodRecord
    settled_rate: ChangeRecord
    so_far: SoFar
    steps: list[StepChangeRecord]
    cohorts: Annotated[
        list[CohortChangeRecord],
        Field(description="Of the 100 largest cohorts, those that entered in both periods."),
    ]
    trend: list[DayChangeRecord] | None
    """The days of both periods in `timezone`. For a visitor, each day counts the best entry of that
    day. null if there are more than 2,000 days.
    """
    notes: Annotated[list[str], Field(description="What makes the comparison less reliable.")]


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
    like, like_before = (count_like(runner, each, query) for each in (context, earlier_context))
    forecasts = forecasts_of(runner, context) if query.forecast else None
    report, earlier = report_of(runner, context, forecasts), report_of(runner, earlier_context)
    now, before = report.aggregate, earlier.aggregate
    return PeriodsRecord(
        **report.head(),
        summary=summary(now, before, report.period, earlier.period, context.definition.unit_word)
        if (since := no_data_before(earlier)) is None
        else f"No data before {_day(since, context, query)}.",
        aggregate=now,
        forecast=report.forecast,
        count_like=MISSING if like is None else like,
        earlier=EarlierPeriodRecord(
            period=earlier.period,
            evaluated_at=iso(earlier_context.params.evaluated_at_ms),
            aggregate=before,
            count_like=MISSING if like_before is None else like_before,
        ),
        settled_rate=_completion_change(now, before),
        so_far=_change_so_far(now, before),
        steps=list(_step_changes(now, before)),
        cohorts=list(_cohort_changes(report.cohorts.data, earlier.cohorts.data)),
        trend=_trend(runner, context, earlier_context, query),
        notes=list(_notes(runner, context, earlier_context)),
    )


def _day(at: str, context: QueryContext, query: PeriodsQuery) -> str:
    """Return the day of a time in the query's time zone, in words."""
    return day_words(parse_time(at), ZoneInfo(query.timezone), context.params.evaluated_at_ms)


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
            settled_rate=_completion_change(day, day_before),
        )
        # Their numbers of days differ only if a time zone skipped a day.
        for day, day_before in zip(days, days_before, strict=False)
    ]


def _notes(
    runner: FunnelQueryRunner, context: QueryContext, earlier: QueryContext
) -> Iterator[str]:
    """Note that the earlier period has more late events: the later one still waits for some."""
    late, late_before = (
        late_share(runner, part, part.params.start_ms, part.params.end_ms)
        for part in (context, earlier)
    )
    if late_before - late >= _LATE_SHARE:
        yield (
            f"{late_before:.0%} of the earlier period's events arrived more than an hour after "
            f"they happened, and {late:.0%} of this period's, so the earlier period looks better "
            "here than it did then."
        )


def change(now: Share | None, before: Share | None) -> ChangeRecord:
    """Return the change of a rate; None if no unit is settled."""
    rates = {
        "rate": None if now is None else now.rate,
        "rate_before": None if before is None else before.rate,
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
        difference=now.rate - before.rate,
        difference_interval=RangeRecord.rounded((low, high)),
        answer=answer,
    )


def _completion_change(now: _Completions, before: _Completions) -> ChangeRecord:
    shares = [
        _share(part.completed - part.early_completions, part.settled) for part in (now, before)
    ]
    return change(*shares)


def _change_so_far(now: AggregateRecord, before: AggregateRecord, step: int = -1) -> ChangeRecord:
    """Return the change of the share of eligible units that have reached a step, by its index."""
    return change(*(_share_so_far(part, step) for part in (now, before)))


def _share_so_far(aggregate: AggregateRecord, step: int = -1) -> Share | None:
    later = aggregate.steps[step:]
    eligible = later[0].count - sum(each.excluded for each in later)
    return _share(eligible, aggregate.entered - aggregate.excluded)


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
            so_far=_change_so_far(now, before, index),
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
                so_far=_change_so_far(cohort, same),
                steps=list(_step_changes(cohort, same)),
            )


def _key(cohort: CohortKeyRecord) -> tuple[str, ...]:
    """Return the values of a cohort with their types: `1`, `"1"` and `true` differ."""
    return tuple(map(tagged, cohort.cohort.values()))


def _share(part: int, whole: int) -> Share | None:
    return Share(part, whole) if whole else None


def summary(
    now: AggregateRecord,
    before: AggregateRecord,
    period: PeriodRecord,
    earlier: PeriodRecord,
    unit: str,
) -> str:
    """Return what changed: the rate of completion, and the step whose rate changed most clearly.

    A rate needs at least `MIN_UNITS` settled units in both periods. If there are fewer, all
    eligible units are compared, at the same age. unit: singular of the counted unit.
    """
    if min(now.settled, before.settled) < MIN_UNITS:
        return _summary_so_far(now, before, period_words(period, earlier), unit)
    rate, rate_before = (Share(part.steps[-1].settled, part.settled) for part in (now, before))
    words = period_words(period, earlier)
    completed = f"{percent(rate.rate)} of {rate.whole:,} settled {unit}s completed"
    sentences = [f"{completed}, {''.join(change_words(rate, rate_before, words))}."]
    if len(now.steps) > 2 and (step := _clearest_step(now, before, words)) is not None:
        sentences.append(step)
    return " ".join(sentences)


def _summary_so_far(now: AggregateRecord, before: AggregateRecord, period: str, unit: str) -> str:
    shares = [_share_so_far(part) or Share(0, 0) for part in (now, before)]
    rate, rate_before = shares
    if min(share.whole for share in shares) < MIN_UNITS:
        return (
            f"Too few to compare: {count_of(rate.whole, unit)} in this period and "
            f"{rate_before.whole:,} in the earlier one. At least {MIN_UNITS} are needed in each."
        )
    return (
        f"So far {percent(rate.rate)} of {rate.whole:,} {unit}s completed, "
        f"{''.join(change_words(rate, rate_before, period))} at the same age."
    )


def _clearest_step(now: AggregateRecord, before: AggregateRecord, period: str) -> str | None:
    """State the step whose share of the step before changed most; None if no change is clear."""
    clear: list[tuple[float, str]] = []
    for step in range(1, len(now.steps)):
        parts = [
            (report.steps[step].settled, report.steps[step - 1].settled) for report in (now, before)
        ]
        if min(whole for _, whole in parts) < MIN_UNITS:
            continue
        share, share_before = (Share(*part) for part in parts)
        low, high = newcombe_interval(share, share_before)
        if low > 0 or high < 0:
            words = (
                f"The clearest change is from step {step} to {step + 1}: {percent(share.rate)} "
                f"continued, {''.join(change_words(share, share_before, period))}."
            )
            clear.append((abs(share.rate - share_before.rate), words))
    return max(clear)[1] if clear else None


def no_data_before(earlier: ResultsRecord) -> str | None:
    """Return when the first event was, if the earlier period had ended by then."""
    first, end = earlier.coverage.first_event_at, earlier.period.end_at
    return first if first is not None and end is not None and first >= end else None
