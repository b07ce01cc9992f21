"""Wire types for definitions: matches in requests, and goals and funnels in responses.

Stored goals and funnels have the same form as in responses, with all defaults filled in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import (
    MISSING,
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from penstock.base.errors import Fault
from penstock.base.event_limits import MAX_NAME_CHARS, MAX_PATH_CHARS
from penstock.base.paths import page_path
from penstock.base.wording import listed
from penstock.funnels.definitions.filters import FilterField, check_filter_field, parse_filter
from penstock.funnels.definitions.model import ANY_NAME, CountingUnit
from penstock.funnels.definitions.operands import LIST, NONE, RANGE
from penstock.funnels.definitions.operators import Operator, operators_with
from penstock.funnels.definitions.windows import UNIT_S, WindowUnit
from penstock.http.schema import Input, Record, RuleBroken, RulesBroken, faults_of, without_nul

MAX_FILTERS = 20

GOAL = "Goal"
_NAMED = ("Screen view", "Event", "Transaction")
"""Types whose values are exact names."""
MatchTypeIn = Literal["Pageview", "Screen view", "Goal", "Event", "Transaction"]


class SavedFilter(Record):
    """A stored filter. value: text as sent; empty for operators that take no value."""

    property: str
    operator: str
    value: str


class SavedMatch(Record):
    """A stored match.

    type: `Pageview`, `Screen view`, `Event`, `Transaction`, or `Goal` (not in a goal).
    value: path or name as sent.
    """

    type: str
    value: str
    filters: list[SavedFilter]


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """Values that validators of goals and funnels need.

    goals: the workspace's goals by name.
    check_regex: raises RuleBroken for a pattern that the engine cannot compile.
    names_cohorts: whether filters can name saved cohorts.
    """

    goals: Mapping[str, SavedMatch]
    check_regex: Callable[[str], None]
    names_cohorts: bool = False


class FilterIn(Input):
    """One condition on a property of an event."""

    property: FilterField
    operator: Operator
    value: Annotated[
        str | None,
        Field(
            validate_default=True,
            description=f"Text; a JSON list for {listed(operators_with(LIST, RANGE))}. "
            f"Leave it out for {listed(operators_with(NONE))}.",
        ),
    ] = None

    @field_validator("property")
    @classmethod
    def _check_cohort(cls, key: str, info: ValidationInfo[ValidationContext]) -> str:
        return key if info.context.names_cohorts else check_filter_field(key)

    @field_validator("value")
    @classmethod
    def _fits_operator(
        cls, value: str | None, info: ValidationInfo[ValidationContext]
    ) -> str | None:
        if (operator := info.data.get("operator")) is not None:
            key = info.data.get("property", "")
            parse_filter(key, operator, value, info.context.check_regex)
        return value


def collect_faults(
    faults: list[Fault],
    value: Any,
    validate: ValidatorFunctionWrapHandler,
    model: type[BaseModel] | None = None,
) -> Any:
    """Validate a value. Raises RulesBroken with all faults of the value and its parts.

    faults: faults of the value as a whole.
    model: type of the parts, for hints about unknown fields.
    """
    try:
        validated = validate(value)
    except ValidationError as error:
        faults = [*faults, *faults_of(error, model=model)]
    if faults:
        raise RulesBroken(faults)
    return validated


def limit_items(limit: int) -> WrapValidator:
    """Limit the length of a list. A longer list gets a fault, and its first items are validated."""

    def check(items: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(items, list) or len(items) <= limit:
            return validate(items)
        return collect_faults(
            [Fault("", "too_many", f"Must have at most {limit} items, not {len(items)}.")],
            items[:limit],
            validate,
        )

    return WrapValidator(check)


class MatchIn(Input):
    """The events that a step or goal accepts.

    value: a page path, or the name of a screen, goal, event or transaction event, by type. `*` is
    any event of the type `Event`.
    """

    type: MatchTypeIn
    value: Annotated[str, Field(min_length=1), AfterValidator(without_nul)]
    filters: Annotated[list[FilterIn], limit_items(MAX_FILTERS), Field(default_factory=list)]

    @field_validator("value")
    @classmethod
    def _fits_type(cls, value: str, info: ValidationInfo[ValidationContext]) -> str:
        match_type = info.data.get("type")
        if match_type in (None, "Pageview"):
            if len(value) > MAX_PATH_CHARS:
                raise RuleBroken("too_long", f"Must be at most {MAX_PATH_CHARS:,} characters.")
        elif len(value) > MAX_NAME_CHARS:
            raise RuleBroken(
                "too_long",
                f"Must be at most {MAX_NAME_CHARS:,} characters. Only page paths may be longer.",
            )
        if match_type == "Pageview" and not page_path(value).startswith(("/", "*")):
            raise RuleBroken(
                "not_a_path", "Must start with / or *, such as /pricing. Other paths match no page."
            )
        is_any = (match_type, value) == ("Event", ANY_NAME)
        if match_type in _NAMED and not value.strip("*") and not is_any:
            raise RuleBroken(
                "not_a_name",
                "Only the path of a Pageview may contain the wildcard *, and only an Event may be "
                f"*, for any event. Name one {match_type.lower()}, and use `or` rows for several.",
            )
        if match_type == GOAL and value not in info.context.goals:
            raise RuleBroken(
                "goal_not_found",
                "There is no goal with this name. Create it first, or check the spelling.",
            )
        return value

    def saved(self) -> SavedMatch:
        return SavedMatch(type=self.type, value=self.value, filters=saved_filters(self.filters))


def saved_filters(filters: Sequence[FilterIn]) -> list[SavedFilter]:
    return [
        SavedFilter(property=item.property, operator=item.operator, value=item.value or "")
        for item in filters
    ]


class SavedStep(SavedMatch):
    """One row. or_: the other options of the row, or the other parts of an `all_of` row.

    Interfaces from before `exclude` and `strict` know neither, so they are present only if true.
    """

    or_: Annotated[list[SavedMatch], Field(alias="or")]
    mode: str | None
    diagnostic: bool
    exclude: Annotated[bool, Field(exclude_if=not_)] = False
    """An exclusion row. Present only if true."""
    strict: Annotated[bool | Literal["all"], Field(exclude_if=not_)] = False
    """A strict step. Present only if it is true or all."""
    name: Annotated[str | None, Field(exclude_if=not_)] = None
    """Present only if the row has a name."""

    @property
    def required(self) -> bool:
        return not (self.diagnostic or self.exclude)


class SavedWindow(Record):
    """A conversion window as a number of minutes, hours or days."""

    value: int
    unit: WindowUnit


class SavedDefinition(Record):
    """A funnel's definition without its name, which does not affect the counts.

    attempt_properties: the keys of a composite attempt ID; empty if `attempt_property` is set.
    conversion_window_seconds: None if unlimited; MISSING if `conversion_window` is set.
    """

    steps: list[SavedStep]
    counting_unit: CountingUnit
    attempt_property: str | None
    attempt_properties: Annotated[list[str], Field(exclude_if=not_, default_factory=list)]
    """Present only if several keys, or built-in ones, form the attempt ID. `attemptProperty` is
    null then.
    """
    sequence_property: str | None
    breakdown_properties: list[str]
    conversion_window_seconds: int | MISSING | None = MISSING
    """null means unlimited. Absent if the funnel has a `conversionWindow`."""
    conversion_window: Annotated[SavedWindow | None, Field(exclude_if=not_)] = None
    """Present only if the funnel was saved with this field."""
    equal_times: Annotated[Literal["inStepOrder"] | None, Field(exclude_if=not_)] = None
    """Present only if it is inStepOrder."""
    repeat: Annotated[bool, Field(exclude_if=not_)] = False
    """Every run counts. Present only if true."""
    order: Annotated[Literal["any"] | None, Field(exclude_if=not_)] = None
    """Present only if it is any."""
    breakdown_at: Annotated[Literal["first", "last"] | int | None, Field(exclude_if=not_)] = None
    """The event that gives the values of the breakdown, if it is not the entry."""

    @property
    def unit_word(self) -> str:
        """The word for one unit: `attempt`, `visitor`, or `run` if every run counts."""
        return "run" if self.repeat else self.counting_unit

    def counts_like(self, other: "SavedDefinition") -> bool:
        """Whether both definitions count the same: they differ at most in the names of rows."""
        return self._without_names() == other._without_names()

    def _without_names(self) -> "SavedDefinition":
        steps = [step.model_copy(update={"name": None}) for step in self.steps]
        return self.model_copy(update={"steps": steps})

    @property
    def attempt_keys(self) -> tuple[str, ...]:
        """All keys of the attempt ID; empty for visitors."""
        single = () if self.attempt_property is None else (self.attempt_property,)
        return single or tuple(self.attempt_properties)

    @property
    def window_s(self) -> int | None:
        """The conversion window in seconds; None if unlimited."""
        if self.conversion_window is not None:
            return self.conversion_window.value * UNIT_S[self.conversion_window.unit]
        seconds = self.conversion_window_seconds
        return None if seconds is MISSING else seconds


class _FunnelHead(Record):
    id: str
    name: str
    folder: Annotated[str | None, Field(exclude_if=not_)] = None
    """Present only if the funnel is in a folder."""
    revision: int
    created_at: str
    updated_at: str


class FunnelRecord(SavedDefinition, _FunnelHead):
    """A saved funnel. revision: counts from 1 and increases with each change of the definition."""

    @property
    def definition(self) -> SavedDefinition:
        return SavedDefinition(
            **{name: getattr(self, name) for name in SavedDefinition.model_fields}
        )


class ReplacedFunnelRecord(FunnelRecord):
    """A saved funnel whose definition was replaced."""

    replaced_revision: int | None = Field(default=None, exclude_if=not_)
    """The previous revision; only if the request had no `revision`."""


class DefinitionRecord(SavedDefinition):
    """A definition that was validated but not saved."""

    name: str


class RevisionRecord(Record):
    """A current or past definition of a funnel."""

    revision: int
    name: str
    """Name of the funnel at that time."""
    definition: SavedDefinition
    created_at: str
    changes: list[str]
    """Differences from the previous revision, in words."""


class GoalRecord(Record):
    """A saved goal, which gives a match a name. Funnels refer to it by name.

    revision: counts from 1 and increases with each new match.
    """

    id: str
    name: str
    match: SavedMatch
    revision: int
    created_at: str
    updated_at: str
