"""HTTP routes for goals."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.funnels.definitions.schema import GoalRecord
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.funnels.goals.service import GoalService
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import RevisionQuery, SearchQuery

_ALL = "/api/goals"
_ONE = "/api/goals/{goal_id:str}"


@route("POST", _ALL, "Create a goal", validated_by="patterns", tag="goals")
def create_goal(caller: Caller, goals: GoalService, goal: GoalIn) -> GoalRecord:
    """A goal is a named match for use in funnels. Names are unique in the workspace."""
    return goals.create(caller.workspace_id, goal)


@route("GET", _ALL, "Goals", tag="goals")
def list_goals(caller: Caller, goals: GoalService, query: SearchQuery) -> Listing[GoalRecord]:
    """List goals, newest first."""
    return goals.page(caller.workspace_id, query.pagination, query.search)


@route("GET", _ONE, "A goal", tag="goals")
def read_goal(caller: Caller, goals: GoalService, goal_id: str) -> GoalRecord:
    return goals.get(caller.workspace_id, goal_id)


@route("PATCH", _ONE, "Change a goal", validated_by="patterns", tag="goals")
def change_goal(
    caller: Caller, goals: GoalService, goal_id: str, change: GoalChange, read_only: ReadOnlyFields
) -> GoalRecord:
    """Fields that you leave out keep their values. A goal in use cannot be renamed.

    Reports use the new match immediately. You can send read-only fields (`id`, `revision`, ...)
    back with their stored values.
    """
    return goals.change(caller.workspace_id, goal_id, change, read_only)


@route("DELETE", _ONE, "Delete a goal", tag="goals")
def delete_goal(caller: Caller, goals: GoalService, goal_id: str, query: RevisionQuery) -> None:
    """A goal that a funnel uses cannot be deleted (409)."""
    goals.delete(caller.workspace_id, goal_id, query.revision)


ROUTES = (create_goal, list_goals, read_goal, change_goal, delete_goal)
