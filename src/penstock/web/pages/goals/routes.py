"""The list of goals with the funnels that use them, and the form for a goal."""

from litestar import Response

from penstock.funnels.goals.service import GoalService
from penstock.http.schema import SearchQuery
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/goals")
def list_page(view: View, goals: GoalService) -> Response[bytes]:
    query = view.query(SearchQuery)
    listing = goals.page(view.workspace_id, query.pagination, query.search)
    return view.render(
        "goals/list.html",
        parts=("list",),
        goals=listing,
        uses=goals.uses(view.workspace_id, listing.data),
        search=query.search,
    )


@page("/goals/new")
def new_page(view: View) -> Response[bytes]:
    return view.render("goals/form.html", goal=None, uses=[])


@page("/goals/{goal_id:str}/edit")
def edit_page(view: View, goal_id: str, goals: GoalService) -> Response[bytes]:
    goal = goals.get(view.workspace_id, goal_id)
    uses = goals.uses(view.workspace_id, [goal]).get(goal.id, [])
    return view.render("goals/form.html", goal=goal, uses=uses)


ROUTES = (list_page, new_page, edit_page)
