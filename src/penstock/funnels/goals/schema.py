"""Goals as clients send them: a name for a match, which funnels refer to by that name."""

from typing import Annotated

from pydantic import Field, field_validator

from penstock.funnels.definitions.matches import GOAL, MatchIn, MatchTypeIn
from penstock.http.schema import Input, Name, RuleBroken


class GoalMatchIn(MatchIn):
    """What the goal stands for. type: any but `Goal`."""

    @field_validator("type")
    @classmethod
    def _is_no_goal(cls, match_type: MatchTypeIn) -> MatchTypeIn:
        if match_type == GOAL:
            raise RuleBroken("goal_of_goal", "A goal cannot refer to a goal; write the other goal's match here.")
        return match_type


class GoalIn(Input):
    name: Name
    match: GoalMatchIn


class GoalChange(Input):
    """What is to change; what is left out stays."""

    name: Annotated[Name | None, Field(description="A new name; refused while a funnel uses the goal.")] = None
    match: Annotated[GoalMatchIn | None, Field(description="A new match, in place of the whole old one.")] = None

    @field_validator("name", "match")
    @classmethod
    def _is_not_null(cls, value: object) -> object:
        if value is None:
            raise RuleBroken("not_null", "Must not be null; leave it out to keep it.")
        return value
