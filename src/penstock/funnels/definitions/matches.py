"""Matches: what one event must be, as goals and steps of funnels ask for it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator, field_validator

from penstock.base.errors import Fault
from penstock.base.paths import page_path
from penstock.funnels.definitions.filters import FilterIn
from penstock.funnels.definitions.model import Filter, Match, MatchType
from penstock.funnels.definitions.records import SavedFilter, SavedMatch
from penstock.funnels.definitions.surroundings import Surroundings
from penstock.http.schema import Input, RuleBroken, RulesBroken, faults_of, without_nul

MAX_FILTERS = 20

GOAL = "Goal"
MatchTypeIn = Literal["Pageview", "Screen view", "Goal", "Event", "Transaction"]


def every_fault(faults: list[Fault], value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """The validated value; or RulesBroken with `faults`, which are about the value as a whole, and those of its parts beside them."""
    try:
        validated = validate(value)
    except ValidationError as error:
        faults = [*faults, *faults_of(error)]
    if faults:
        raise RulesBroken(faults)
    return validated


def at_most(limit: int) -> WrapValidator:
    """A list's limit. The faults of the items inside the limit are told beside the excess; those beyond it are not read."""

    def check(items: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(items, list) or len(items) <= limit:
            return validate(items)
        return every_fault([Fault("", "too_many", f"At most {limit} are possible; there are {len(items)}.")], items[:limit], validate)

    return WrapValidator(check)


class MatchIn(Input):
    """A match as a client sends it. value: path, screen, goal name, event name or transaction event, according to type."""

    type: MatchTypeIn
    value: Annotated[str, Field(min_length=1), AfterValidator(without_nul)]
    filters: Annotated[list[FilterIn], at_most(MAX_FILTERS), Field(default_factory=list)]

    @field_validator("value")
    @classmethod
    def _fits_type(cls, value: str, info: ValidationInfo[Surroundings]) -> str:
        match_type, limits = info.data.get("type"), info.context.limits
        if match_type in (None, "Pageview"):
            if len(value) > limits.max_path_chars:
                raise RuleBroken("too_long", f"Must be at most {limits.max_path_chars:,} characters.")
        elif len(value) > limits.max_name_chars:
            raise RuleBroken("too_long", f"Must be at most {limits.max_name_chars:,} characters; only page paths may be longer.")
        if match_type == "Pageview" and not page_path(value).startswith(("/", "*")):
            raise RuleBroken("not_a_path", "Must begin with a slash, as /pricing, or it matches no page.")
        if match_type == GOAL and value not in info.context.goals:
            raise RuleBroken("goal_not_found", "There is no goal of this name; create it first, or check the spelling.")
        return value

    def saved(self) -> SavedMatch:
        return SavedMatch(type=self.type, value=self.value, filters=saved_filters(self.filters))


def saved_filters(filters: list[FilterIn]) -> list[SavedFilter]:
    return [SavedFilter(property=one.property, operator=one.operator, value=one.value or "") for one in filters]


def resolved_match(match: SavedMatch, goals: Mapping[str, SavedMatch]) -> Match:
    """The match with a goal replaced by what it stands for. Filters of both must hold."""
    filters = tuple(Filter(one.property, one.operator, one.value) for one in match.filters)
    if match.type == GOAL:
        goal = resolved_match(goals[match.value], {})
        return Match(goal.type, goal.value, goal.filters + filters)
    match_type = MatchType(match.type)
    return Match(match_type, page_path(match.value) if match_type is MatchType.PAGEVIEW else match.value, filters)
