"""Wire types for results, previews and exports."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, time
from enum import StrEnum
from io import StringIO
from operator import not_
from typing import Annotated, Literal

from pydantic import MISSING, AfterValidator, Field, field_validator, model_validator
from pydantic_core import to_json

from penstock.base.calendar import local_time, period_before, period_from
from penstock.base.clock import iso
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.base.table_files import TableFormat
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.other_tools.schema import CountLikeRecord, ShownQuery
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.schema import (
    CohortFilter,
    CohortKeyRecord,
    CohortQuery,
    CoverageRecord,
    HeadRecord,
)
from penstock.funnels.saved.schema import FunnelIn
from penstock.funnels.statements.query import Sort
from penstock.http.period import (
    TIME,
    Day,
    ReportPeriod,
    add_missing_end,
    ends_after_start,
    read_time_ms,
)
from penstock.http.schema import Name, Rate, Record, without_nul


class ResultsQuery(CohortQuery, ShownQuery):
    """Query parameters for results."""

    page: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    """Page of cohorts, starting at 1."""
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    """Cohorts per page, 1 to 100."""
    sort: Sort = Sort.ENTERED
    """Sort key of the cohorts. Cohorts without a value come last."""
    order: Literal["desc", "asc"] = "desc"
    """Descending or ascending order."""
    search: Annotated[str, Field(max_length=200), AfterValidator(without_nul)] = ""
    """Only cohorts with a value that contains this text, regardless of case. `Unknown` also finds
    missing values. The other numbers cover all cohorts.
    """

    forecast: bool = False
    """true: also forecast where the rates settle. The first request of a day takes longer."""
    audience: bool = False
    """true: also say how many of the period's visitors entered, and how many units internal
    traffic, the segment and the filters left out. This takes additional time.
    """

    def selection(self) -> Selection:
        return replace(
            super().selection(),
            page=Page(self.page, self.page_size),
            sort=self.sort,
            descending=self.order == "desc",
            search=self.search,
        )


def filters_as_text(filters: Sequence[SavedFilter]) -> str:
    """Return the query parameter `filters`."""
    return to_json([item.model_dump() for item in filters]).decode()


def keys_as_text(keys: Sequence[str]) -> str:
    """Return the query parameter `breakdown`."""
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(keys)
    return text.getvalue()


AD_HOC = ("breakdown", "breakdownAt", "filters", "window", "settled", "segment", "internal")
"""Query parameters that change the saved definition for one query."""

SELECTION = (
    "websiteId",
    "period",
    "start",
    "end",
    "startAt",
    "endAt",
    "timezone",
    "revision",
    "cohort",
    "compare",
    "compareStart",
    *AD_HOC,
)
"""Query parameters that select the units of a report."""


class ReportQuery(ResultsQuery, ReportPeriod):
    """The selection of a report page and of a shared report.

    compare: the period to compare with. compare_start: its first day, for `custom`.
    """

    compare: Literal["previous", "year", "custom"] | None = None
    compare_start: Day = None

    def parameters(self, now_ms: int, *, window_s: int = 0, cohort: bool = True) -> dict[str, str]:
        """Return the selection as API query parameters.

        window_s: length of the funnel's conversion window. cohort: whether to include the filter.
        """
        cohort_json = to_json(self.cohort).decode() if self.cohort else None
        parameters = {
            "websiteId": self.website_id,
            **self.span_parameters(now_ms, window_s),
            "asOf": None if self.as_of is None else iso(self.as_of),
            "revision": self.revision and str(self.revision),
            "cohort": cohort_json if cohort else None,
            "filters": self.filters and filters_as_text(self.filters),
            "window": self.window,
            "settled": "true" if self.settled else None,
            "breakdownAt": None if self.breakdown_at is None else str(self.breakdown_at),
            "segment": self.segment,
            "internal": "true" if self.internal else None,
        }
        sent = {name: value for name, value in parameters.items() if value}
        return (
            sent if self.breakdown is None else {**sent, "breakdown": keys_as_text(self.breakdown)}
        )

    def compare_error(self, now_ms: int, window_s: int = 0) -> str | None:
        """Return why the period cannot be compared; None if it can. window_s: see `days`."""
        span = self.span(now_ms, window_s)
        if span is None:
            return "Choose a period with a start and an end, such as 30 days."
        if self.compare == "custom" and self.compare_start is None:
            return "Choose the first day of the earlier period."
        start_ms = self.earlier_span(span)[0]
        if start_ms >= span[0]:
            return "The earlier period must start before the other one."
        return None if start_ms >= 0 else "The earlier period must not start before 1970."

    def earlier_span(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the period to compare with. It has the same length in local time.

        span: start and end of the later period.
        """
        start, end = (local_time(at_ms, self.zone) for at_ms in span)
        if self.compare == "year":
            return period_from(_year_before(start), end - start, self.zone)
        if self.compare == "custom" and self.compare_start is not None:
            midnight = datetime.combine(self.compare_start, time())
            return period_from(midnight, end - start, self.zone)
        return period_before(*span, self.zone)


def _year_before(at: datetime) -> datetime:
    is_leap_day = (at.month, at.day) == (2, 29)
    return at.replace(year=at.year - 1, day=28 if is_leap_day else at.day)


_Ignored = Annotated[
    str | None, Field(description="Ignored: an export has all cohorts in the default order.")
]


class ExportQuery(CohortQuery):
    """Query parameters for an export. The parameters of results are accepted and ignored."""

    format: TableFormat = "csv"
    """File format."""
    page: _Ignored = None
    page_size: _Ignored = None
    sort: _Ignored = None
    order: _Ignored = None
    search: _Ignored = None
    audience: _Ignored = None
    count_like: _Ignored = None
    mode: _Ignored = None
    shown: _Ignored = None


class PreviewIn(FunnelIn):
    """A draft of a funnel, with the query parameters of results in the same body."""

    name: Name | None = None  # type: ignore[assignment]
    website_id: str | None = None
    """Only events of this website."""
    start_at: Annotated[int | str | None, Field(description=f"{TIME}. Requires `endAt`.")] = None
    end_at: int | str | None = None
    """Requires `startAt`."""
    page: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    cohort: CohortFilter | None = None
    internal: bool = False
    """true: also count internal traffic, left out by default."""

    _complete = model_validator(mode="before")(add_missing_end)
    _read_time = field_validator("start_at", "end_at", mode="before")(read_time_ms)
    _read_period = field_validator("end_at")(ends_after_start)

    def selection(self) -> Selection:
        """Return the selection for the report's query."""
        return Selection(
            self.website_id,
            None if self.start_at is None else int(self.start_at),
            None if self.end_at is None else int(self.end_at),
            self.cohort or {},
            Page(self.page, self.page_size),
            ad_hoc=AdHocChanges(internal=self.internal),
        )


RowName = Annotated[
    str | None,
    Field(exclude_if=not_, description="The row's own name. Present only if it has one."),
]


class OptionRecord(Record):
    option: int
    """0 for the step's own match, then its `or` rows from 1."""
    count: int


class StepRecord(Record):
    step: int
    """Number of the step, without diagnostic rows, from 1."""
    row: int
    """Position in `steps` of the definition, from 0."""
    type: str
    value: str
    name: RowName = None
    count: int
    """Units that reached this step; in any order, units that did at least this number of steps."""
    pending: int
    """Units that got no further and whose window is still open."""
    dropped_off: int
    """Units that got no further and whose window has closed."""
    excluded: int
    """Units that were excluded between this step and the next."""
    conversion_from_start: Rate | None
    """Share of all eligible units, which are not excluded."""
    conversion_from_previous: Rate | None
    """Share of the eligible units that reached the step before."""
    settled: int
    """Settled units that reached this step."""
    settled_from_start: Rate | None
    """Share of all settled units; null if there are none."""
    settled_from_previous: Rate | None
    """Share of the settled units that reached the step before."""
    options: list[OptionRecord]
    row_count: int | MISSING = MISSING
    """Units that did this step itself. Present only if the order is any."""
    forecast: ForecastRecord | MISSING | None = MISSING
    """Where `conversionFromStart` settles; null for the first step, and if no unit is open."""


class DiagnosticRecord(Record):
    row: int
    after_step: int
    """Number of the step before the row; 0 above the first step."""
    where: str
    """Where the row looks: `before step 1` (within one conversion window), `between steps 2 and 3`,
    or `after step 3`.
    """
    type: str
    value: str
    name: RowName = None
    units: int
    """Units with an event in this span that matches the row or, for an all_of row, with matching
    events for all parts.
    """
    events: int
    """Events in this span that match the row or a part of it."""


class RangeRecord(Record):
    lower: float
    upper: float

    @classmethod
    def rounded(cls, bounds: tuple[float, float], decimals: int = 4) -> "RangeRecord":
        lower, upper = bounds
        return cls(lower=round(lower, decimals), upper=round(upper, decimals))


class SettledRecord(Record):
    """Figures over settled units.

    A unit is open while it may still complete: while it is pending, or while another entry of a
    visitor that has not completed has an open window. For attempts,
    entered = settled + pending + earlyCompletions + excluded.
    """

    settled: int
    """Eligible units whose conversion window has ended at evaluatedAt and that are not open,
    completed or not. 0 without a window, as such units never settle.
    """
    settled_rate: Rate | None
    """Settled units that completed / settled, to four decimals; null if no unit is settled. Unlike
    conversionRate, it never counts a unit that may still complete as lost.
    """
    early_completions: int
    """Units that completed while their window is still open. They become settled when it closes."""


FinalRate = Annotated[
    RangeRecord | None,
    Field(
        description="Range of the conversion rate once all windows have closed: from no open unit "
        "completing to all of them completing. null if no unit is open."
    ),
]


Excluded = Annotated[
    int,
    Field(
        description="Units that an exclusion row or a strict step excluded. They count in "
        "entered, but not in any rate."
    ),
]
ConversionRate = Annotated[
    Rate | None,
    Field(description="completed / eligible, to four decimals; eligible = entered - excluded."),
]


class FiguresRecord(Record):
    """Figures over all units. Each is computed by the property of `Tally` with its name."""

    entered: int
    completed: int
    pending: int
    dropped_off: int
    excluded: Excluded
    conversion_rate: ConversionRate
    final_rate: FinalRate
    median_completion_minutes: float | None


class AggregateRecord(FiguresRecord, SettledRecord):
    """The numbers for all units or for one cohort. A rate is null if its denominator is 0."""

    steps: list[StepRecord]
    diagnostics: list[DiagnosticRecord]


class CohortRecord(AggregateRecord, CohortKeyRecord):
    """The numbers for one entry cohort."""

    forecast: ForecastRecord | MISSING | None = MISSING
    """Where its rate settles; null if none of its units is open, or if fewer than 30 are eligible.
    """


class CohortsRecord(Record):
    page: int
    page_size: int
    total: int
    data: list[CohortRecord]


class DataQualityRecord(Record):
    """Problems that make the numbers less reliable, in all cohorts of the period."""

    events_without_attempt_id: int
    invalid_sequence_values: int
    sequence_skips: int
    unordered_ties: int
    units_with_ordering_issues: int
    assumed_order: int
    """Events that count only because of `equalTimes: inStepOrder`."""
    tied_entries: int
    unknown_entry_values: dict[str, int]
    conflicting_entry_values: dict[str, int]
    unverified_provider_events: int
    coarse_times: int
    """Events of providers that send whole seconds, if their unit has another event in the same
    second. Such an event counts at the start of the second for step 1, and at its end for later
    steps.
    """
    attempts_with_several_visitors: int
    units_over_limit: int
    """Units of which only the first events or entries are counted."""
    lost_on_devices: int
    """Events that clients dropped because their queues were full, from reports between the day of
    `startAt` and the end of the last conversion window, in UTC.
    """


class ImpossibleReason(StrEnum):
    """Why a row can never act.

    NO_EVENTS: there are no events of its kind and name. FILTERS: none of them passes the filters.
    NO_ATTEMPT_ID: none that passes them has an attempt ID. UNVERIFIED: those that have one are
    events of a payment provider without a verified link to a visitor. EXCLUDES_NEXT_STEP: each
    event that can complete the next step also matches the exclusion.
    """

    NO_EVENTS = "no_events"
    FILTERS = "filters"
    NO_ATTEMPT_ID = "no_attempt_id"
    UNVERIFIED = "unverified"
    EXCLUDES_NEXT_STEP = "excludes_next_step"


class ImpossibleStepRecord(Record):
    """A row that can never act. events: number of events that come closest to it."""

    row: int
    """Position in `steps` of the definition, from 0."""
    step: int
    """Number of the step; of an exclusion or diagnostic row, the step before it, 0 above the first
    step.
    """
    reason: ImpossibleReason
    events: int
    message: str


class ReportRecord(Record):
    """The numbers of a report."""

    aggregate: AggregateRecord
    forecast: ForecastRecord | MISSING | None = MISSING
    """Where the rate of all units settles; null if no unit is open. Present only if the request has
    `forecast=true`.
    """
    cohorts: CohortsRecord
    data_quality: DataQualityRecord


class LeftOutRecord(Record):
    """Units that would have entered in the period without one of the choices, in all cohorts.

    Each is counted alone, so a unit that two choices leave out counts in neither. null: the report
    does not make this choice.
    """

    internal: int | None
    segment: int | None
    filters: int | None


class AudienceRecord(Record):
    """The visitors that a report counts, and the units that it leaves out."""

    visitors: int
    """Visitors with any event in the period on the websites, whatever the filters."""
    entered: int
    """Visitors of the counted units: those who entered, or of whose attempts one entered."""
    share: Rate | None
    """entered / visitors, to four decimals."""
    left_out: LeftOutRecord


class ResultsRecord(ReportRecord, HeadRecord):
    """A funnel report."""

    impossible_steps: list[ImpossibleStepRecord]
    """Rows that can never act: steps that no unit reached, and that no event from `startAt` to the
    end of the last conversion window can complete; exclusion and diagnostic rows without any event;
    exclusions that let no unit pass.
    """
    coverage: CoverageRecord
    audience: AudienceRecord | None = None
    """null unless the request has `audience=true`."""
    receipt: str | None = None
    """Address of the newest receipt of the same question; null without one, and in a preview."""
    count_like: CountLikeRecord | MISSING = MISSING
    """Present only if the request has `countLike`."""
