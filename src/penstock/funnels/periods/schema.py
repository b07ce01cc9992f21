"""Wire types for comparisons of two periods."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationInfo, field_validator

from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.funnels.insights.schema import TrendBucketRecord
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.schema import CohortKeyRecord, CohortQuery, HeadRecord, PeriodRecord
from penstock.funnels.results.schema import AggregateRecord, RangeRecord
from penstock.http.period import AS_TIME, TIME, InTimezone, read_time_ms
from penstock.http.schema import Record, RuleBroken


class PeriodsQuery(CohortQuery, InTimezone):
    """Query parameters for a comparison of two periods."""

    start_at: Annotated[int, AS_TIME, Field(description=f"Start of the later period: {TIME}.")]
    end_at: Annotated[int, AS_TIME, Field(description="End of the later period.")]
    compare_start_at: Annotated[
        int, AS_TIME, Field(description=f"Start of the earlier period, before startAt: {TIME}.")
    ]
    compare_end_at: Annotated[
        int,
        AS_TIME,
        Field(
            description="End of the earlier period, which has as many days of `timezone` as the "
            "period from startAt to endAt."
        ),
    ]

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
        days, days_before = (
            _days(start_ms, end_ms, zone),
            _days(compare_start_ms, compare_end_ms, zone),
        )
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

    rate: float | None
    rate_before: float | None
    difference: Annotated[
        float | None, Field(description="rate - rateBefore; null if one of them is null.")
    ]
    difference_interval: Annotated[
        RangeRecord | None,
        Field(description="95% confidence interval of the difference (Newcombe)."),
    ]
    answer: Annotated[
        Conclusion,
        Field(
            description="`higher` or `lower` if the interval excludes 0. `too_early`: fewer than "
            "30 settled units in one of the periods."
        ),
    ]


class StepChangeRecord(Record):
    step: int
    count: int
    count_before: int
    from_start: Annotated[
        ChangeRecord, Field(description="Share of the settled units that reached the step.")
    ]
    from_previous: Annotated[
        ChangeRecord | None,
        Field(description="Share of those that reached the step before; null for step 1."),
    ]


class CohortChangeRecord(CohortKeyRecord):
    """The change of one cohort that entered in both periods."""

    entered: int
    entered_before: int
    settled_rate: ChangeRecord


class DayChangeRecord(Record):
    """The change of one day: the first, second or later day of both periods."""

    bucket: TrendBucketRecord
    bucket_before: TrendBucketRecord
    settled_rate: ChangeRecord


class EarlierPeriodRecord(Record):
    period: PeriodRecord
    evaluated_at: Annotated[
        str, Field(description="Later events were not read: the period was as old then.")
    ]
    aggregate: AggregateRecord


class PeriodsRecord(HeadRecord):
    """Two periods at the same age."""

    summary: Annotated[str, Field(description="What changed, in a sentence or two.")]
    aggregate: AggregateRecord
    earlier: EarlierPeriodRecord
    settled_rate: ChangeRecord
    steps: list[StepChangeRecord]
    cohorts: Annotated[
        list[CohortChangeRecord],
        Field(description="Of the 100 largest cohorts, those that entered in both periods."),
    ]
    trend: Annotated[
        list[DayChangeRecord] | None,
        Field(
            description="The days of both periods in `timezone`. For a visitor, each day counts "
            "the best entry of that day. null if there are more than 2,000 days."
        ),
    ]
    notes: Annotated[list[str], Field(description="What makes the comparison less reliable.")]
