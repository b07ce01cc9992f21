"""What goes over the wire for a comparison of cohorts."""

from enum import StrEnum
from math import isfinite
from typing import Annotated, Any

from pydantic import Field, JsonValue, TypeAdapter, ValidationError, field_validator

from penstock.base.scalar import Scalar
from penstock.funnels.results.schema import CohortKeyRecord, CoverageRecord, HeadRecord, PeriodQuery
from penstock.http.schema import Record, RuleBroken

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class CompareQuery(PeriodQuery):
    """The query parameters of a comparison."""

    property_: Annotated[str, Field(alias="property", description="One of the funnel's breakdown properties; its cohorts are compared.")]
    baseline: Annotated[
        Scalar | None,
        Field(
            description='Value of the cohort that the others are held against, as JSON: "a", 5, true or null. Left out: the most entered.'
        ),
    ] = None

    @property
    def names_baseline(self) -> bool:
        """Whether a baseline was sent, be it null."""
        return "baseline" in self.model_fields_set

    @field_validator("baseline", mode="before")
    @classmethod
    def _is_a_scalar(cls, text: Any) -> Any:
        try:
            value = _JSON.validate_json(text)
        except ValidationError:
            value = []
        if isinstance(value, dict | list) or (isinstance(value, float) and not isfinite(value)):
            raise RuleBroken("not_a_scalar", 'Must be a JSON scalar or null, as "a" (with the quotes), 5, true or null.')
        return value


class WarningCode(StrEnum):
    """What a reader must know before deciding on a comparison."""

    TOO_FEW = "too_few"
    ASSIGNED_AFTER_ENTRY = "assigned_after_entry"
    OPEN_WINDOWS = "open_windows"


class WarningRecord(Record):
    code: WarningCode
    message: str


class RangeRecord(Record):
    lower: float
    upper: float


class AgainstBaselineRecord(Record):
    """A cohort held against the baseline. Positive differences favour the cohort."""

    difference: Annotated[float, Field(description="Rate minus the baseline's rate.")]
    difference_interval: Annotated[RangeRecord, Field(description="95 % confidence interval (Newcombe).")]
    test: Annotated[str, Field(description="z: of two proportions. fisher: exact, where an expected count is under 5.")]
    p_value: Annotated[float, Field(description="Two-sided; of this comparison alone.")]
    p_value_corrected: Annotated[
        float | None, Field(description="Corrected for the number of comparisons (Holm); null where too few units entered.")
    ]
    probability_to_beat: Annotated[float, Field(description="That its true rate is above the baseline's (Bayes, uniform priors).")]


class ComparedRecord(CohortKeyRecord):
    """One cohort of a comparison."""

    entered: int
    completed: int
    pending: int
    conversion_rate: Annotated[float, Field(description="completed / entered, to four decimals.")]
    rate_interval: Annotated[RangeRecord, Field(description="95 % confidence interval of the rate (Wilson).")]
    final_rate: Annotated[RangeRecord, Field(description="The rate once no window is open: if all pending drop off, if all complete.")]
    conflicting_entry_values: Annotated[int, Field(description="Units of which a later accepted event has another value.")]
    too_few: Annotated[bool, Field(description="Fewer than 30 units entered.")]
    against_baseline: Annotated[AgainstBaselineRecord | None, Field(description="null for the baseline itself.")]


class ComparisonRecord(HeadRecord):
    """Cohorts of one breakdown property against one of them."""

    property: str
    baseline: Annotated[CohortKeyRecord | None, Field(description="null when nobody entered.")]
    confidence_level: float
    total: Annotated[int, Field(description="How many cohorts there are.")]
    left_out: Annotated[int, Field(description="How many of them are not in `cohorts`.")]
    cohorts: Annotated[list[ComparedRecord], Field(description="The 50 most entered, first the most; the baseline is always there.")]
    warnings: list[WarningRecord]
    coverage: CoverageRecord
