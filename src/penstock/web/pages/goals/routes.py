"""The list of goals with the funnels that use them, and the form for a goal."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.websites.service import WebsiteService
from penstock.funnels.definitions.operators import operators_by_group
from penstock.funnels.goals.service import GoalService
from penstock.http.schema import SearchQuery
from penstock.web.view import View


@get("/goals", sync_to_thread=True)
def list_page(
    view: NamedDependency[View],
    goals: NamedDependency[GoalService],
    website_service: NamedDependency[WebsiteService],
) -> Response[bytes]:
    query = view.query(SearchQuery)
    listing = goals.page(view.workspace_id, query.pagination, query.search)
    return view.render(
        "goals/list.html",
        parts=("list",),
        goals=listing,
        websites=website_service.websites(view.workspace_id),
        uses=goals.uses(view.workspace_id, listing.data),
        search=query.search,
    )


@get("/goals/new", sync_to_thread=True)
def new_page(view: NamedDependency[View]) -> Response[bytes]:
    groups = operators_by_group()
    return view.render("goals/form.html", goal=None, uses=[], operator_groups=groups)


@get("/goals/{goal_id:str}/edit", sync_to_thread=True)
def edit_page(
    view: NamedDependency[View], goal_id: FromPath[str], goals: NamedDependency[GoalService]
) -> Response[bytes]:
    goal = goals.get(view.workspace_id, goal_id)
    return view.render(
        "goals/form.html",
        goal=goal,
        uses=goals.uses(view.workspace_id, [goal]).get(goal.id, []),
        operator_groups=operators_by_group(),
    )


ROUTES = (list_page, new_page, edit_page)
