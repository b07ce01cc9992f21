"""Wire types of results, previews and exports. Source: contract, "Funnels"."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from penstock.base.paging import MAX_PAGE_SIZE, Page
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
from penstock.http.period import TIME, add_missing_end, ends_after_start, read_time_ms
from penstock.http.schema import Name, Record


class ResultsQuery(CohortQuery):
    """Query parameters of results."""

    page: Annotated[int, Field(ge=1, le=2**31 - 1, description="Page of cohorts, from 1.")] = 1
    page_size: Annotated[
        int, Field(ge=1, le=MAX_PAGE_SIZE, description="Cohorts per page, 1 to 100.")
    ] = 20
    sort: Annotated[
        Sort, Field(description="Sort key of the cohorts; those without a value come last.")
    ] = Sort.ENTERED
    order: Annotated[
        Literal["desc", "asc"], Field(description="Descending or ascending order.")
    ] = "desc"

    def selection(self) -> Selection:
        return replace(
            super().selection(),
            page=Page(self.page, self.page_size),
            sort=self.sort,
            descending=self.order == "desc",
        )


_Ignored = Annotated[
    str | None, Field(description="Ignored: an export has every cohort, in the default order.")
]


class ExportQuery(CohortQuery):
    """Query parameters of an export. It accepts those of results, so that their URL works."""

    format: Annotated[Literal["csv", "json", "parquet"], Field(description="File format.")] = "csv"
    page: _Ignored = None
    page_size: _Ignored = None
    sort: _Ignored = None
    order: _Ignored = None


class PreviewIn(FunnelIn):
    """A draft of a funnel, with the query parameters of results in the same body."""

    name: Name | None = None  # type: ignore[assignment]
    website_id: Annotated[str | None, Field(description="Only events of this website.")] = None
    start_at: Annotated[int | str | None, Field(description=f"{TIME}. Requires `endAt`.")] = None
    end_at: Annotated[int | str | None, Field(description="Needs startAt.")] = None
    page: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    cohort: CohortFilter | None = None

    _complete = model_validator(mode="before")(add_missing_end)
    _read_time = field_validator("start_at", "end_at", mode="before")(read_time_ms)
    _read_period = field_validator("end_at")(ends_after_start)

    def selection(self) -> Selection:
        """The query parameters for the steps of a query."""
        return Selection(
            self.website_id,
            None if self.start_at is None else int(self.start_at),
            None if self.end_at is None else int(self.end_at),
            self.cohort or {},
            Page(self.page, self.page_size),
        )


class OptionRecord(Record):
    option: Annotated[
        int, Field(description="0: the step's own match; then its `or` rows in order.")
    ]
    count: int


class StepRecord(Record):
    step: Annotated[int, Field(description="From 1; diagnostic rows are not counted.")]
    row: Annotated[int, Field(description="Position in `steps` of the definition, from 0.")]
    type: str
    value: str
    count: Annotated[int, Field(description="Units that reached this step.")]
    pending: Annotated[
        int, Field(description="Units whose furthest step this is, and whose window is open.")
    ]
    dropped_off: Annotated[
        int, Field(description="Units whose furthest step this is, and whose window has closed.")
    ]
    conversion_from_start: float | None
    conversion_from_previous: float | None
    options: list[OptionRecord]


class DiagnosticRecord(Record):
    row: int
    after_step: Annotated[int, Field(description="0: above the first step.")]
    where: Annotated[
        str,
        Field(
            description="Where it looks: `before step 1` (one conversion window), `between steps 2 "
            "and 3`, or `after step 3`."
        ),
    ]
    type: str
    value: str
    units: Annotated[
        int,
        Field(
            description="Units with at least one matching event there; of an all_of row, with one "
            "of every part."
        ),
    ]
    events: Annotated[int, Field(description="Events there that match the row or a part of it.")]


class AggregateRecord(Record):
    """The numbers of all units, or of one cohort. A rate without a denominator is null."""

    entered: int
    completed: int
    pending: int
    dropped_off: int
    conversion_rate: Annotated[
        float | None, Field(description="completed / entered, to four decimals.")
    ]
    median_completion_minutes: float | None
    steps: list[StepRecord]
    diagnostics: list[DiagnosticRecord]


class CohortRecord(AggregateRecord, CohortKeyRecord):
    """The numbers of one entry cohort."""


class CohortsRecord(Record):
    page: int
    page_size: int
    total: int
    data: list[CohortRecord]


class DataQualityRecord(Record):
    """How reliable the numbers are. Covers all entry cohorts of the period, whatever the page."""

    events_without_attempt_id: int
    invalid_sequence_values: int
    sequence_skips: int
    unordered_ties: int
    units_with_ordering_issues: int
    tied_entries: int
    unknown_entry_values: dict[str, int]
    conflicting_entry_values: dict[str, int]
    unverified_provider_events: int
    coarse_times: Annotated[
        int,
        Field(
            description="Events of providers that send whole seconds, with another event of their "
            "unit in the same second. Step 1 counts at its start, later steps at its end."
        ),
    ]
    attempts_with_several_visitors: int
    units_over_limit: Annotated[
        int, Field(description="Counted by their first events or entries only.")
    ]
    lost_on_devices: Annotated[
        int,
        Field(
            description="Events that clients dropped because their queues were full, as "
            "they reported from the day of `startAt` to that of `endAt` and the conversion window, "
            "in UTC."
        ),
    ]


class ResultsRecord(HeadRecord):
    """A funnel report."""

    aggregate: AggregateRecord
    cohorts: CohortsRecord
    data_quality: DataQualityRecord
    coverage: CoverageRecord
