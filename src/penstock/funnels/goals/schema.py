"""Wire types of goals: named matches for use in funnels."""

from typing import Annotated

from pydantic import Field, field_validator

from penstock.funnels.definitions.schema import GOAL, MatchIn, MatchTypeIn
from penstock.http.schema import Input, Name, RuleBroken


class GoalMatchIn(MatchIn):
    """The match of a goal. type: any but `Goal`."""

    @field_validator("type")
    @classmethod
    def _is_no_goal(cls, match_type: MatchTypeIn) -> MatchTypeIn:
        if match_type == GOAL:
            raise RuleBroken(
                "goal_of_goal", "A goal cannot use a goal; write the other goal's match here."
            )
        return match_type


class GoalIn(Input):
    name: Name
    match: GoalMatchIn


class GoalChange(Input):
    """Changes of a goal; absent fields keep their values."""

    name: Annotated[
        Name | None, Field(description="A new name; refused while a funnel uses the goal.")
    ] = None
    match: Annotated[
        GoalMatchIn | None, Field(description="A new match, which replaces the old one.")
    ] = None

    @field_validator("name", "match")
    @classmethod
    def _is_not_null(cls, value: object) -> object:
        if value is None:
            raise RuleBroken("not_null", "Must not be null; leave the field out to keep its value.")
        return value
