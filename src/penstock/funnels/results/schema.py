"""What goes over the wire for results: the question in, the report out. Source: contract, "Funnels"."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError, WithJsonSchema, field_validator, model_validator

from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.definition import FunnelIn
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.statements.query import Sort
from penstock.http.period import AS_TIME, TIME, InPeriod, both_ends, ends_after_start, moment
from penstock.http.schema import Name, Record, RuleBroken

CohortFilter = dict[str, JsonValue]
_COHORT = TypeAdapter(CohortFilter)


class PeriodQuery(InPeriod):
    """Of which units a funnel is asked."""

    website_id: Annotated[str | None, Field(description="Only events of this website.")] = None
    start_at: Annotated[int | None, AS_TIME, Field(description=f"Units that entered at or after it: {TIME}. Needs endAt.")] = None
    end_at: Annotated[int | None, AS_TIME, Field(description="Units that entered before it. Needs startAt.")] = None
    revision: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="Of the definition; left out, the one that is saved now.")] = None


class CohortQuery(PeriodQuery):
    """Of which units a funnel is asked, and of which of its entry cohorts."""

    cohort: Annotated[
        CohortFilter | None,
        WithJsonSchema({"type": "string", "contentMediaType": "application/json"}),
        Field(description='Only these cohorts: a JSON object of entry property to exact value, as {"plan": null}.'),
    ] = None

    @field_validator("cohort", mode="before")
    @classmethod
    def _is_an_object(cls, text: Any) -> Any:
        try:
            return _COHORT.validate_json(text)
        except ValidationError:
            raise RuleBroken("not_an_object", 'Must be a JSON object, as {"plan": "pro"}.') from None


class ResultsQuery(CohortQuery):
    """The query parameters of results."""

    page: Annotated[int, Field(ge=1, le=2**31 - 1, description="Page of cohorts, from 1.")] = 1
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE, description="Cohorts on a page, 1 to 100.")] = 20
    sort: Annotated[Sort, Field(description="What cohorts are sorted by; those without a value come last.")] = Sort.ENTERED
    order: Annotated[Literal["desc", "asc"], Field(description="The greatest or the least first.")] = "desc"


class ExportQuery(CohortQuery):
    """The query parameters of an export."""

    format: Annotated[Literal["csv", "json", "parquet"], Field(description="Of the file.")] = "csv"


class PreviewIn(FunnelIn):
    """A funnel that is not saved, with what is asked of it."""

    name: Name | None = None  # type: ignore[assignment]
    website_id: Annotated[str | None, Field(description="Only events of this website.")] = None
    start_at: Annotated[int | str | None, Field(description=f"{TIME}. Together with endAt.")] = None
    end_at: Annotated[int | str | None, Field(description="Together with startAt.")] = None
    page: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    cohort: CohortFilter | None = None

    _complete = model_validator(mode="before")(both_ends)
    _read_time = field_validator("start_at", "end_at", mode="before")(moment)
    _read_period = field_validator("end_at")(ends_after_start)


class OptionRecord(Record):
    option: Annotated[int, Field(description="0: the step's own match; then its `or` rows in order.")]
    count: int


class StepRecord(Record):
    step: Annotated[int, Field(description="From 1; diagnostic rows are not counted.")]
    row: Annotated[int, Field(description="Position in `steps` of the definition, from 0.")]
    type: str
    value: str
    count: Annotated[int, Field(description="Units that reached this step.")]
    pending: Annotated[int, Field(description="Units whose furthest step this is, and whose window is open.")]
    dropped_off: Annotated[int, Field(description="Units whose furthest step this is, and whose window has closed.")]
    conversion_from_start: float | None
    conversion_from_previous: float | None
    options: list[OptionRecord]


class DiagnosticRecord(Record):
    row: int
    after_step: int
    type: str
    value: str
    units: Annotated[int, Field(description="Units with at least one matching event there.")]
    events: int


class AggregateRecord(Record):
    """The numbers of all units, or of one cohort. A rate without a denominator is null."""

    entered: int
    completed: int
    pending: int
    dropped_off: int
    conversion_rate: Annotated[float | None, Field(description="completed / entered, to four decimals.")]
    median_completion_minutes: float | None
    steps: list[StepRecord]
    diagnostics: list[DiagnosticRecord]


class CohortKeyRecord(Record):
    cohort: Annotated[dict[str, Scalar | None], Field(description="Typed entry values; null where missing.")]
    label: Annotated[dict[str, Scalar], Field(description="The same for people: Unknown where missing.")]


class CohortRecord(AggregateRecord, CohortKeyRecord):
    """The numbers of one entry cohort."""


class CohortsRecord(Record):
    page: int
    page_size: int
    total: int
    data: list[CohortRecord]


class DataQualityRecord(Record):
    """How far the numbers can be trusted; covers all entry cohorts of the period, whatever the cohort filter and page."""

    events_without_attempt_id: int
    invalid_sequence_values: int
    sequence_skips: int
    unordered_ties: int
    units_with_ordering_issues: int
    tied_entries: int
    unknown_entry_values: dict[str, int]
    conflicting_entry_values: dict[str, int]
    unverified_provider_events: int
    attempts_with_several_visitors: int


class GapRecord(Record):
    """A deletion or an import that touched the history which the answer stands on."""

    kind: str
    website_id: str
    from_: Annotated[str, Field(alias="from")]
    to: str
    at: str
    state: str


class CoverageRecord(Record):
    complete: Annotated[bool, Field(description="Whether nothing qualifies the answer.")]
    first_event_at: str | None
    last_event_at: str | None
    period_begins_before_history: bool
    open_windows: Annotated[int, Field(description="Units that may still complete.")]
    gaps: list[GapRecord]
    notes: Annotated[list[str], Field(description="What qualifies the answer, in sentences.")]


class PeriodRecord(Record):
    start_at: str | None
    end_at: str | None


class GoalUseRecord(Record):
    name: str
    id: str
    revision: Annotated[int, Field(description="Of the match that was counted by.")]


class ServedFrom(StrEnum):
    QUERY = "query"
    CACHE = "cache"


class HeadRecord(Record):
    """What was asked: the head of every answer about a funnel."""

    funnel_id: Annotated[str | None, Field(description="null in a preview.")]
    definition_revision: Annotated[int | None, Field(description="null in a preview.")]
    goals: Annotated[list[GoalUseRecord], Field(description="Those that the definition uses, by name.")]
    counting_unit: CountingUnit
    evaluated_at: Annotated[str, Field(description="The moment that the answer is of. A reused answer keeps its own.")]
    computed_at: Annotated[str, Field(description="When the engine computed the answer.")]
    served_from: Annotated[
        ServedFrom, Field(description="`cache`: computed for an earlier request, and nothing it depends on has changed.")
    ]
    period: PeriodRecord
    website_id: str | None


class ResultsRecord(HeadRecord):
    """A funnel report."""

    aggregate: AggregateRecord
    cohorts: CohortsRecord
    data_quality: DataQualityRecord
    coverage: CoverageRecord
