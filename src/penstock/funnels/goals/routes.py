"""HTTP routes for goals."""

from anyio import to_thread
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.fair_queue import FairQueue
from penstock.funnels.definitions.schema import GoalRecord
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.funnels.goals.service import GoalService
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import compute_on, read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.read_only import split_read_only
from penstock.http.requests import AnyRequest
from penstock.http.schema import RevisionQuery, SearchQuery


@post("/api/goals", opt=described("Create a goal", body=GoalIn, answers=GoalRecord, tag="goals"))
async def create_goal(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    goals: NamedDependency[GoalService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """A goal is a named match for use in funnels. Names are unique in the workspace."""
    require_json(request)
    body = await read_bytes(request)
    goal = await definition_checks.run(caller.workspace_id, goals.read, body, GoalIn)
    return answer(await to_thread.run_sync(goals.create, caller.workspace_id, goal), status=201)


@get(
    "/api/goals",
    opt=described("Goals", answers=GoalRecord, query=SearchQuery, listed=True, tag="goals"),
)
async def list_goals(
    request: AnyRequest, caller: NamedDependency[Caller], goals: NamedDependency[GoalService]
) -> Response[bytes]:
    """List goals, newest first."""
    query = read_query(request, SearchQuery)
    return await answer_list(
        await to_thread.run_sync(goals.page, caller.workspace_id, query.pagination, query.search)
    )


@get("/api/goals/{goal_id:str}", opt=described("A goal", answers=GoalRecord, tag="goals"))
async def read_goal(
    goal_id: FromPath[str], caller: NamedDependency[Caller], goals: NamedDependency[GoalService]
) -> Response[bytes]:
    return answer(await to_thread.run_sync(goals.get, caller.workspace_id, goal_id))


@patch(
    "/api/goals/{goal_id:str}",
    opt=described(
        "Change a goal", body=GoalChange, answers=GoalRecord, takes_read_only=True, tag="goals"
    ),
)
async def change_goal(
    request: AnyRequest,
    goal_id: FromPath[str],
    caller: NamedDependency[Caller],
    goals: NamedDependency[GoalService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Fields that you leave out keep their values. A goal in use cannot be renamed.

    Reports use the new match immediately. You can send read-only fields (`id`, `revision`, ...)
    back with their stored values.
    """
    require_json(request)
    sent = await read_bytes(request)
    body, read_only = await compute_on(sent, split_read_only, sent, GoalChange, GoalRecord)
    change = await definition_checks.run(caller.workspace_id, goals.read, body, GoalChange)
    return answer(
        await to_thread.run_sync(goals.change, caller.workspace_id, goal_id, change, read_only)
    )


@delete(
    "/api/goals/{goal_id:str}",
    opt=described("Delete a goal", query=RevisionQuery, tag="goals"),
)
async def delete_goal(
    request: AnyRequest,
    goal_id: FromPath[str],
    caller: NamedDependency[Caller],
    goals: NamedDependency[GoalService],
) -> Response[None]:
    """A goal that a funnel uses cannot be deleted (409)."""
    revision = read_query(request, RevisionQuery).revision
    await to_thread.run_sync(goals.delete, caller.workspace_id, goal_id, revision)
    return no_content()


ROUTES = (create_goal, list_goals, read_goal, change_goal, delete_goal)
