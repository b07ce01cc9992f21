"""Matches: what an event must be, as goals and the steps of funnels define it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from penstock.base.errors import Fault
from penstock.base.paths import page_path
from penstock.funnels.definitions.filters import FilterIn, check_event_field, parse_comparison
from penstock.funnels.definitions.model import Filter, Match, MatchType
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.records import SavedFilter, SavedMatch
from penstock.funnels.definitions.validation_context import ValidationContext
from penstock.http.schema import (
    Input,
    RuleBroken,
    RulesBroken,
    faults_of,
    join_path,
    without_nul,
)

MAX_FILTERS = 20

GOAL = "Goal"
MatchTypeIn = Literal["Pageview", "Screen view", "Goal", "Event", "Transaction"]


def every_fault(faults: list[Fault], value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """The validated value. RulesBroken with `faults`, those of the value as a whole, and with the
    faults of its parts.
    """
    try:
        validated = validate(value)
    except ValidationError as error:
        faults = [*faults, *faults_of(error)]
    if faults:
        raise RulesBroken(faults)
    return validated


def at_most(limit: int) -> WrapValidator:
    """A list's limit. A longer list gets a fault, beside those of the items within the limit."""

    def check(items: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(items, list) or len(items) <= limit:
            return validate(items)
        return every_fault(
            [Fault("", "too_many", f"Must have at most {limit} items, not {len(items)}.")],
            items[:limit],
            validate,
        )

    return WrapValidator(check)


class MatchIn(Input):
    """A match as a client sends it.

    value: a page path, or the name of a screen, goal, event or transaction event, by type.
    """

    type: MatchTypeIn
    value: Annotated[str, Field(min_length=1), AfterValidator(without_nul)]
    filters: Annotated[list[FilterIn], at_most(MAX_FILTERS), Field(default_factory=list)]

    @field_validator("value")
    @classmethod
    def _fits_type(cls, value: str, info: ValidationInfo[ValidationContext]) -> str:
        match_type, limits = info.data.get("type"), info.context.limits
        if match_type in (None, "Pageview"):
            if len(value) > limits.max_path_chars:
                raise RuleBroken(
                    "too_long", f"Must be at most {limits.max_path_chars:,} characters."
                )
        elif len(value) > limits.max_name_chars:
            raise RuleBroken(
                "too_long",
                f"Must be at most {limits.max_name_chars:,} characters; "
                "only page paths may be longer.",
            )
        if match_type == "Pageview" and not page_path(value).startswith(("/", "*")):
            raise RuleBroken(
                "not_a_path", "Must begin with / or *, such as /pricing; other paths match no page."
            )
        if match_type == GOAL and value not in info.context.goals:
            raise RuleBroken(
                "goal_not_found",
                "There is no goal with this name; create it first, or check the spelling.",
            )
        return value

    def saved(self) -> SavedMatch:
        return SavedMatch(type=self.type, value=self.value, filters=saved_filters(self.filters))


def saved_filters(filters: list[FilterIn]) -> list[SavedFilter]:
    return [
        SavedFilter(property=item.property, operator=item.operator, value=item.value or "")
        for item in filters
    ]


def resolved_match(
    match: SavedMatch, goals: Mapping[str, SavedMatch], check_regex: Callable[[str], None]
) -> Match:
    """The match with a goal replaced by the goal's own match; the filters of both must hold.

    RulesBroken with every fault of the stored match, and of the goal's.
    """
    faults: list[Fault] = []
    filters = tuple(_loaded_filters(match.filters, check_regex, faults))
    loaded = None
    if match.type == GOAL:
        try:
            loaded = resolved_match(goals[match.value], {}, check_regex)
        except RulesBroken as error:
            faults += _of_goal(match.value, error.faults)
    elif match.type in set(MatchType):
        match_type = MatchType(match.type)
        is_page = match_type is MatchType.PAGEVIEW
        loaded = Match(match_type, page_path(match.value) if is_page else match.value)
    else:
        faults.append(Fault("type", "not_one_of", f"Must be {', '.join(MatchType)} or {GOAL}."))
    if faults or loaded is None:
        raise RulesBroken(faults)
    return Match(loaded.type, loaded.value, loaded.filters + filters)


def _loaded_filters(
    filters: Sequence[SavedFilter], check_regex: Callable[[str], None], faults: list[Fault]
) -> Iterator[Filter]:
    """Stored filters, read by the rules for new ones. faults: gets those of the unreadable ones."""
    for place, item in enumerate(filters):
        at, faults_before = f"filters[{place}]", len(faults)
        with _collecting(faults, f"{at}.property"):
            check_event_field(item.property)
        if item.operator not in set(Operator):
            known = ", ".join(Operator)
            faults.append(Fault(f"{at}.operator", "not_one_of", f"Must be one of {known}."))
            continue
        with _collecting(faults, f"{at}.value"):
            comparison = parse_comparison(Operator(item.operator), item.value, check_regex)
        if len(faults) == faults_before:
            yield Filter(item.property, comparison)


@contextmanager
def _collecting(faults: list[Fault], field: str) -> Iterator[None]:
    """Turns a broken rule into a fault of the field."""
    try:
        yield
    except RuleBroken as error:
        faults.append(Fault(field, error.code, error.message))


def _of_goal(name: str, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Faults of a goal as those of the match that refers to it."""
    for fault in faults:
        at = join_path("match", fault.field)
        yield Fault("value", fault.code, f"The goal {name} has a fault at {at}: {fault.message}")
