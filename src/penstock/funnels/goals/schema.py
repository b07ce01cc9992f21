"""Goals in requests."""

from typing import Any

from pydantic import ValidatorFunctionWrapHandler, field_validator

from penstock.funnels.definitions.cost import MatchCost, cost_fault, match_units, read_match
from penstock.funnels.definitions.schema import GOAL, MatchIn, MatchTypeIn
from penstock.http.schema import Input, Name, Omittable, RuleBroken, RulesBroken


class GoalMatchIn(MatchIn):
    """The match of a goal. type: any type except `Goal`."""

    @field_validator("type")
    @classmethod
    def _reject_goal(cls, match_type: MatchTypeIn) -> MatchTypeIn:
        if match_type == GOAL:
            raise RuleBroken(
                "goal_of_goal", "A goal cannot use another goal. Copy that goal's match instead."
            )
        return match_type

    @field_validator("filters", mode="wrap")
    @classmethod
    def _check_cost(cls, filters: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        units = match_units(read_match({"filters": filters}), {})
        if (too_costly := cost_fault([MatchCost("this goal", units)], "")) is not None:
            raise RulesBroken([too_costly])
        return validate(filters)


class GoalIn(Input):
    name: Name
    match: GoalMatchIn


class GoalChange(Input):
    """Changes to a goal. Fields that are left out keep their values."""

    name: Omittable[Name] = None
    """A new name. A goal that a funnel uses cannot be renamed."""
    match: Omittable[GoalMatchIn] = None
    """A new match, which replaces the old one."""
