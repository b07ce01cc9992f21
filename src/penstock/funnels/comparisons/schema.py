"""Wire types for comparisons of cohorts."""

from enum import StrEnum
from math import isfinite
from typing import Annotated, Any

from pydantic import MISSING, Field, JsonValue, TypeAdapter, ValidationError, field_validator

from penstock.base.scalar import Scalar
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.other_tools.schema import LikeFiguresRecord, LikeQuery, LikeRulesRecord
from penstock.funnels.queries.schema import AdHocQuery, CohortKeyRecord, CoverageRecord, HeadRecord
from penstock.funnels.results.schema import ConversionRate, Excluded, RangeRecord, SettledRecord
from penstock.http.schema import Record, RuleBroken

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class CompareQuery(AdHocQuery, LikeQuery):
    """The query parameters for a comparison."""

    property_: Annotated[str, Field(alias="property")]
    """Breakdown property whose cohorts are compared."""
    baseline: Scalar | None = None
    """Value of the baseline cohort as JSON: "a", 5, true or null. Default: the cohort with the most
    units.
    """

    forecast: bool = False
    """true: also forecast where the rates of the cohorts settle."""

    @property
    def has_baseline(self) -> bool:
        """Whether a baseline was sent. It may be null."""
        return "baseline" in self.model_fields_set

    @field_validator("baseline", mode="before")
    @classmethod
    def _parse_scalar(cls, text: Any) -> Any:
        try:
            value = _JSON.validate_json(text)
        except ValidationError:
            value = []
        if isinstance(value, dict | list) or (isinstance(value, float) and not isfinite(value)):
            raise RuleBroken(
                "not_a_scalar",
                'Must be a JSON scalar or null, such as "a" (with the quotes), 5, true or null.',
            )
        return value


class WarningCode(StrEnum):
    """A caveat to consider before making a decision."""

    TOO_FEW = "too_few"
    ASSIGNED_AFTER_ENTRY = "assigned_after_entry"
    OPEN_WINDOWS = "open_windows"


class ComparisonWarningRecord(Record):
    code: WarningCode
    message: str


class AgainstBaselineRecord(Record):
    """A cohort compared with the baseline. Positive differences favour the cohort."""

    difference: float
    """Rate minus the baseline's rate."""
    difference_interval: RangeRecord
    """95% confidence interval of the difference (Newcombe)."""
    test: str
    """z: z test of two proportions. fisher: Fisher's exact test, used if an expected count is below
    5.
    """
    p_value: float
    """Two-sided p-value of this comparison only."""
    p_value_corrected: float | None
    """p-value corrected for the number of comparisons (Holm); null with too few units."""
    probability_to_beat: float
    """Probability that the cohort's true rate is above the baseline's (Bayes, uniform priors)."""


class ComparedRecord(SettledRecord, CohortKeyRecord):
    """One cohort of a comparison.

    `conversionRate`, `rateInterval` and `againstBaseline` count pending units as not converted.
    The fields about settled units leave out units whose window is still open.
    """

    entered: int
    completed: int
    pending: int
    excluded: Excluded
    conversion_rate: ConversionRate
    rate_interval: RangeRecord | None
    """95% confidence interval of the rate (Wilson); null if all units are excluded."""
    final_rate: RangeRecord | None
    """Range of the rate once all windows have closed: from no open unit completing to all of them
    completing; null if all units are excluded and none is open.
    """
    conflicting_entry_values: int
    """Units with another value in a later event."""
    too_few: bool
    """Fewer than 30 units are eligible."""
    against_baseline: AgainstBaselineRecord | None
    """null for the baseline."""
    settled_rate_interval: RangeRecord | None
    """95% confidence interval of the settled rate (Wilson); null if no unit is settled."""
    settled_too_few: bool
    """Fewer than 30 units are settled."""
    settled_against_baseline: AgainstBaselineRecord | None
    """Like againstBaseline, but over settled units only: the fair comparison while windows are
    open. null for the baseline, and if either cohort has no settled unit.
    """
    forecast: ForecastRecord | MISSING | None = MISSING
    """Where its rate settles; null if none of its units is open, or if fewer than 30 are eligible.
    Present only if the request has `forecast=true`.
    """
    count_like: LikeFiguresRecord | MISSING = MISSING
    """Units of the cohort here, or by the rules of the other tool, which may take the value from
    another event. Present only if the request has `countLike`.
    """


class CohortsLikeRecord(LikeRulesRecord):
    """The rules of another tool that a comparison of cohorts counts by."""

    others: LikeFiguresRecord
    """Units in all other cohorts, with those that have their value only there."""


class ComparisonRecord(HeadRecord):
    """The cohorts of a breakdown property, compared with a baseline."""

    property: str
    baseline: CohortKeyRecord | None
    """null if no unit entered."""
    summary: str | None
    """The result in words, over settled units unless the funnel has no window; null if no unit
    entered.
    """
    confidence_level: float
    total: int
    """Number of cohorts."""
    left_out: int
    """Number of cohorts that are not in `cohorts`."""
    cohorts: list[ComparedRecord]
    """The 50 largest cohorts, largest first, and the baseline."""
    count_like: CohortsLikeRecord | MISSING = MISSING
    """The rules of the other tool. Present only if the request has `countLike`."""
    warnings: list[ComparisonWarningRecord]
    coverage: CoverageRecord
