"""Funnels in requests, and their rules.

A response lists all faults of a body at once, with their field paths. So a rule about two fields is
a validator of the second field, which can use the first field if that field is valid. Pydantic
would check a rule about the whole object only after every field is valid.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    MISSING,
    AfterValidator,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from penstock.base.errors import Fault
from penstock.funnels.definitions.ad_hoc import BreakdownAt, check_step
from penstock.funnels.definitions.builtins import COHORT, is_of_visitor
from penstock.funnels.definitions.cost import cost_fault, read_step, row_costs
from penstock.funnels.definitions.filters import AttemptKey, BreakdownField, OwnProperty
from penstock.funnels.definitions.model import ENTRY, MAX_COHORTS, CountingUnit
from penstock.funnels.definitions.schema import (
    MatchIn,
    SavedDefinition,
    SavedStep,
    ValidationContext,
    collect_faults,
    limit_items,
    saved_filters,
)
from penstock.funnels.definitions.windows import MAX_WINDOW_S, UNIT_S, WindowUnit
from penstock.funnels.saved.rows import (
    MAX_ROWS,
    MAX_STEPS,
    MIN_STEPS,
    any_order_faults,
    identical_parts,
    not_in_any_order,
    row_faults,
)
from penstock.http.schema import (
    Input,
    Name,
    Query,
    RuleBroken,
    RulesBroken,
    SearchQuery,
    without_nul,
)


class FunnelSort(StrEnum):
    """Orders of the list of funnels."""

    CREATED = "created"
    UPDATED = "updated"
    NAME = "name"


class NewFunnelQuery(Query):
    """Query parameters for a new funnel."""

    draft: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    """A name of your choice. Equal requests with the same name are safe to repeat: they return the
    funnel that the first one created, even if it was changed since.
    """


class FunnelsQuery(SearchQuery):
    """Query parameters for the list of funnels."""

    sort: FunnelSort = FunnelSort.CREATED
    """Newest first, latest change first, or by name regardless of case."""
    folder: Annotated[str | None, AfterValidator(without_nul)] = None
    """Only funnels in this folder. Empty: funnels in no folder."""


class FunnelMove(Input):
    """A funnel's new folder."""

    folder: Name | None
    """null: in no folder."""


MAX_OR_ROWS = 20
MAX_BREAKDOWNS = 3
MAX_ATTEMPT_KEYS = 4
ATTEMPT_WINDOW_S = 604_800

WindowSeconds = Literal[3600, 86400, 604800, 1209600, 2592000, 7776000]
WINDOWS_S: tuple[int, ...] = get_args(WindowSeconds)
_ATTEMPTS_ONLY = (
    "Only for funnels that count attempts. Set countingUnit to attempt, or leave {} out."
)
_WINDOWS = ", ".join(map(str, WINDOWS_S))


class StepIn(MatchIn):
    """One row of a funnel: a required step, a diagnostic row, or an exclusion row."""

    name: Name | None = None
    """Reports show it instead of the value. A change of names alone keeps the revision."""

    diagnostic: bool = False
    exclude: bool = False
    """An exclusion row between two steps: a unit with a matching event after the step above, and
    before the step below, is excluded from all rates.
    """
    strict: bool | Literal["all"] = False
    """For a step after the first: an event of another step between this step and the one before
    excludes the unit. all: any event that does not match this step does.
    """
    mode: Literal["all_of"] | None = None
    """all_of: the row needs its own match and all `or` rows, in any order."""
    or_: Annotated[list[MatchIn], limit_items(MAX_OR_ROWS), Field(alias="or", default_factory=list)]

    @model_validator(mode="before")
    @classmethod
    def _check_or_even_if_absent(cls, row: Any) -> Any:
        return {"or": [], **row} if isinstance(row, dict) else row

    @field_validator("strict", mode="before")
    @classmethod
    def _read_strict(cls, strict: Any) -> Any:
        if strict != "all" and not isinstance(strict, bool):
            raise RuleBroken("not_one_of", "Must be true, false or all.")
        return strict

    @field_validator("exclude", "strict")
    @classmethod
    def _check_kind(
        cls, is_set: bool | Literal["all"], info: ValidationInfo[ValidationContext]
    ) -> bool | Literal["all"]:
        if is_set and info.data.get("diagnostic"):
            raise RuleBroken(
                "not_allowed", "A diagnostic row never affects the counts. Drop one of the two."
            )
        if is_set and info.field_name == "strict" and info.data.get("exclude"):
            raise RuleBroken(
                "not_allowed", "Only a step can be strict. Set it on the step below the exclusion."
            )
        return is_set

    @field_validator("mode")
    @classmethod
    def _check_mode(cls, mode: str | None, info: ValidationInfo[ValidationContext]) -> str | None:
        if mode is not None and info.data.get("exclude"):
            raise RuleBroken(
                "not_allowed",
                "Any match of an exclusion row excludes a unit. Leave out mode, and list further "
                "matches in `or`.",
            )
        return mode

    @field_validator("or_")
    @classmethod
    def _check_group(
        cls, rows: list[MatchIn], info: ValidationInfo[ValidationContext]
    ) -> list[MatchIn]:
        if not info.data.get("mode"):
            return rows
        if not rows:
            raise RuleBroken("required", "A row with mode all_of needs its other parts in `or`.")
        if {"type", "value", "filters"} <= info.data.keys():
            parent = MatchIn.model_construct(
                **{name: info.data[name] for name in MatchIn.model_fields}
            )
            if faults := list(identical_parts([parent, *rows], info.context)):
                raise RulesBroken(faults)
        return rows

    def saved_step(self) -> SavedStep:
        rows = [row.saved() for row in self.or_]
        return SavedStep.from_object(self, filters=saved_filters(self.filters), or_=rows)


class WindowIn(Input):
    """A conversion window as a number of minutes, hours or days: one minute to 366 days."""

    unit: WindowUnit
    value: Annotated[int, Field(json_schema_extra={"minimum": 1})]

    @field_validator("value")
    @classmethod
    def _check_length(cls, value: int, info: ValidationInfo) -> int:
        unit = info.data.get("unit", "minute")
        limit = MAX_WINDOW_S // UNIT_S[unit]
        if not 1 <= value <= limit:
            raise RuleBroken(
                "out_of_range",
                f"Must be 1 to {limit:,} {unit}s. A window is one minute to 366 days long.",
            )
        return value


class FunnelIn(Input):
    """A new or replaced funnel."""

    name: Name
    folder: Name | MISSING | None = MISSING
    """A folder of the list of funnels. null: in no folder. Left out of a replacement: unchanged."""
    counting_unit: CountingUnit = CountingUnit.VISITOR
    order: Literal["given", "any"] = "given"
    """any: a report counts how many of the steps were done, in whatever order. Any step can be the
    entry. Not with groups, strict steps, `repeat`, `equalTimes` and `sequenceProperty`.
    """
    attempt_properties: Annotated[
        list[AttemptKey] | None,
        limit_items(MAX_ATTEMPT_KEYS),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_ATTEMPT_KEYS}),
    ] = None
    """Instead of attemptProperty: one to four keys whose values together are the attempt ID.
    `$visitor`, `$session` and traits are allowed: `["$session"]` counts sessions, `["$visitor",
    "cart_id"]` counts the carts of each visitor, and `["$trait.company"]` counts companies.
    """
    attempt_property: OwnProperty | None = None
    """Property with the attempt ID. Funnels that count attempts need it, or attemptProperties;
    others may not have it.
    """
    sequence_property: OwnProperty | None = None
    """Numeric property that orders events with the same timestamp."""
    breakdown_properties: Annotated[
        list[BreakdownField], limit_items(MAX_BREAKDOWNS), Field(default_factory=list)
    ]
    conversion_window_seconds: WindowSeconds | MISSING | None = MISSING
    """Default: seven days for attempts, unlimited for visitors. null: unlimited, visitors only. For
    other lengths, use conversionWindow.
    """
    conversion_window: WindowIn | None = None
    """A window of any length from one minute to 366 days, instead of conversionWindowSeconds."""
    equal_times: Literal["proven", "inStepOrder"] = "proven"
    """inStepOrder: events with equal times count in the order of the steps, unless sequence numbers
    prove another order. For visitors, from senders with times in whole seconds.
    """
    repeat: bool = False
    """Counts every run of a visitor: three purchases of one visitor are three. For visitor funnels
    with a conversion window.
    """
    steps: Annotated[
        list[StepIn],
        Field(
            description=f"{MIN_STEPS} to {MAX_STEPS} required steps, "
            f"and at most {MAX_ROWS} rows in all.",
            json_schema_extra={"minItems": MIN_STEPS, "maxItems": MAX_ROWS},
        ),
    ]

    breakdown_at: BreakdownAt = "entry"
    """The event that gives the values of breakdownProperties: the entry, the first or last accepted
    event that has the property, or the number of a step.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_attempt_property_even_if_absent(cls, funnel: Any) -> Any:
        return {"attemptProperty": None, **funnel} if isinstance(funnel, dict) else funnel

    @field_validator("attempt_properties", mode="wrap")
    @classmethod
    def _check_attempt_properties(
        cls, keys: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        if keys is not None and info.data.get("counting_unit") is CountingUnit.VISITOR:
            raise RuleBroken("not_allowed", _ATTEMPTS_ONLY.format("attemptProperties"))
        if keys == []:
            raise RuleBroken("too_short", "Name at least one key, or leave attemptProperties out.")
        return collect_faults(_repeated(keys, MAX_ATTEMPT_KEYS), keys, validate)

    @field_validator("attempt_property")
    @classmethod
    def _check_attempt_property(cls, key: str | None, info: ValidationInfo) -> str | None:
        unit = info.data.get("counting_unit")
        # An invalid `attempt_properties` is missing from `data` and has its own error.
        if info.data.get("attempt_properties", ()) is not None:
            if key is not None:
                raise RuleBroken("not_allowed", "Send attemptProperty or attemptProperties.")
            return key
        if unit is CountingUnit.ATTEMPT and key is None:
            raise RuleBroken(
                "required",
                "A funnel that counts attempts needs the name of the property with the attempt ID.",
            )
        if unit is CountingUnit.VISITOR and key is not None:
            raise RuleBroken("not_allowed", _ATTEMPTS_ONLY.format("attemptProperty"))
        return key

    @field_validator("sequence_property")
    @classmethod
    def _check_sequence_property(cls, key: str | None, info: ValidationInfo) -> str | None:
        if key is not None and info.data.get("order") == "any":
            raise RuleBroken("not_allowed", not_in_any_order("A sequence orders no steps here"))
        return key

    @field_validator("breakdown_properties", mode="wrap")
    @classmethod
    def _check_distinct(cls, keys: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        return collect_faults(_repeated(keys, MAX_BREAKDOWNS), keys, validate)

    @field_validator("conversion_window_seconds", mode="before")
    @classmethod
    def _check_window(cls, seconds: Any, info: ValidationInfo) -> Any:
        attempts = info.data.get("counting_unit") is CountingUnit.ATTEMPT
        if seconds is None and not attempts:
            return None
        if seconds is None:
            raise RuleBroken(
                "window_required",
                f"An attempt funnel needs a finite window: {_WINDOWS}. The default is seven days. "
                "For another length, use conversionWindow instead.",
            )
        if seconds not in WINDOWS_S:
            raise RuleBroken(
                "not_one_of",
                f"Must be one of {_WINDOWS}"
                + (", in seconds. " if attempts else ", in seconds, or null. ")
                + "For another length, use conversionWindow instead.",
            )
        return int(seconds)

    @field_validator("conversion_window")
    @classmethod
    def _check_only_window(cls, window: WindowIn | None, info: ValidationInfo) -> WindowIn | None:
        if window is not None and info.data.get("conversion_window_seconds") is not MISSING:
            raise RuleBroken(
                "not_allowed",
                "A funnel has one conversion window. "
                "Leave out conversionWindow or conversionWindowSeconds.",
            )
        return window

    @field_validator("equal_times")
    @classmethod
    def _check_equal_times(cls, rule: str, info: ValidationInfo) -> str:
        if rule == "inStepOrder" and info.data.get("counting_unit") is CountingUnit.ATTEMPT:
            raise RuleBroken(
                "not_allowed",
                "Only for funnels that count visitors. Send a sequenceProperty to order the events "
                "of an attempt.",
            )
        if rule == "inStepOrder" and info.data.get("order") == "any":
            raise RuleBroken("not_allowed", not_in_any_order("Steps have no order"))
        return rule

    @field_validator("repeat")
    @classmethod
    def _check_repeat(cls, is_set: bool, info: ValidationInfo) -> bool:
        if is_set and info.data.get("counting_unit") is CountingUnit.ATTEMPT:
            raise RuleBroken(
                "not_allowed",
                "Only for funnels that count visitors. Every attempt already counts.",
            )
        if is_set and info.data.get("order") == "any":
            raise RuleBroken("not_allowed", not_in_any_order("Each visitor counts once"))
        # A window that was refused is missing from `data` and has its own error.
        windows = ("conversion_window_seconds", "conversion_window")
        if is_set and all(info.data.get(name, 0) in (None, MISSING) for name in windows):
            raise RuleBroken(
                "window_required",
                "A funnel that counts every run needs a conversion window, because a run that is "
                "not completed ends with its window. Send conversionWindow or "
                "conversionWindowSeconds.",
            )
        return is_set

    @field_validator("steps", mode="wrap")
    @classmethod
    def _check_steps(
        cls,
        rows: Any,
        validate: ValidatorFunctionWrapHandler,
        info: ValidationInfo[ValidationContext],
    ) -> Any:
        if not isinstance(rows, list):
            return validate(rows)
        # Check the cost first, because validating filters is expensive: the engine compiles their
        # regexes.
        costs = row_costs([read_step(row) for row in rows[:MAX_ROWS]], info.context.goals)
        faults = list(row_faults(rows))
        if info.data.get("order") == "any":
            faults += any_order_faults(rows)
        if (too_costly := cost_fault(costs, "")) is not None:
            raise RulesBroken([*faults, too_costly])
        return collect_faults(faults, rows[:MAX_ROWS], validate, StepIn)

    @field_validator("breakdown_at")
    @classmethod
    def _check_breakdown_at(cls, at: str | int, info: ValidationInfo) -> str | int:
        # Invalid steps are missing from `data` and have errors.
        rows: list[StepIn] | None = info.data.get("steps")
        if rows is not None:
            check_step(at, sum(not (row.diagnostic or row.exclude) for row in rows))
        return at

    @field_validator("steps")
    @classmethod
    def _limit_cohorts(cls, rows: list[StepIn]) -> list[StepIn]:
        named = {
            item.value
            for row in rows
            for match in (row, *row.or_)
            for item in match.filters
            if item.property == COHORT
        }
        if len(named) > MAX_COHORTS:
            raise RuleBroken("too_many", f"The filters can name at most {MAX_COHORTS} cohorts.")
        return rows

    def saved(self) -> SavedDefinition:
        """Return the stored form, with all defaults filled in."""
        window = self.conversion_window
        keys = self.attempt_properties or [
            key for key in (self.attempt_property,) if key is not None
        ]
        is_single = len(keys) == 1 and not is_of_visitor(keys[0])
        return SavedDefinition.from_object(
            self,
            steps=[step.saved_step() for step in self.steps],
            attempt_property=keys[0] if is_single else None,
            attempt_properties=[] if is_single else keys,
            conversion_window_seconds=MISSING if window is not None else self._window_s(),
            equal_times=None if self.equal_times == "proven" else self.equal_times,
            order=None if self.order == "given" else self.order,
            breakdown_at=None if self.breakdown_at in (ENTRY, 1) else self.breakdown_at,
        )

    def _window_s(self) -> int | None:
        """Return `conversion_window_seconds`, or its default if it was not sent."""
        if self.conversion_window_seconds is not MISSING:
            return self.conversion_window_seconds
        return ATTEMPT_WINDOW_S if self.counting_unit is CountingUnit.ATTEMPT else None


def _repeated(keys: Any, limit: int) -> list[Fault]:
    """Return a fault for each repeated item of a list of keys that is not yet validated."""
    first = keys[: limit + 1] if isinstance(keys, list) else []
    repeated = [at for at, key in enumerate(first) if key in first[:at]]
    return [Fault(f"[{at}]", "repeated", "Name each property only once.") for at in repeated]
