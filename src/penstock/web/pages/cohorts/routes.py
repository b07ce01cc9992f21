"""The list of saved cohorts, and the page of one with its visitors."""

from functools import partial
from urllib.parse import urlencode

from litestar import Response

from penstock.base.errors import NotFound
from penstock.base.ids import WorkspaceId
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.saved_cohorts.schema import SavedCohortRecord
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.http.schema import PageQuery, SearchQuery
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.parts import load_part
from penstock.web.view import View


@page("/cohorts")
def list_page(view: View, cohorts: SavedCohortService) -> Response[bytes]:
    query = view.query(SearchQuery)
    listing = cohorts.page(view.workspace_id, query.pagination, query.search)
    return view.render("cohorts/list.html", parts=("list",), cohorts=listing, search=query.search)


@slow_page("/cohorts/{cohort_id:str}")
def cohort_page(
    view: View, cohort_id: str, cohorts: SavedCohortService, funnels: FunnelService
) -> Response[bytes]:
    cohort = cohorts.get(view.workspace_id, cohort_id)
    page = view.query(PageQuery).pagination
    load = partial(cohorts.visitors, view.workspace_id, cohort_id, page)
    return view.render(
        "cohorts/cohort.html",
        parts=("list",),
        cohort=cohort,
        funnel_name=_funnel_name(funnels, view.workspace_id, cohort),
        units_address=f"/funnels/{cohort.funnel_id}/units?{urlencode(_address(cohort))}",
        list_part=load_part(view, "list", load),
    )


def _funnel_name(
    funnels: FunnelService, workspace_id: WorkspaceId, cohort: SavedCohortRecord
) -> str | None:
    """Return the name of the cohort's funnel; None if it was deleted."""
    try:
        return funnels.get(workspace_id, cohort.funnel_id).name
    except NotFound:
        return None


def _address(cohort: SavedCohortRecord) -> dict[str, str]:
    """Return the query parameters of the page with the cohort's list of units."""
    parameters = dict(cohort.parameters)
    return parameters if "startAt" in parameters else {"period": "all", **parameters}


ROUTES = (list_page, cohort_page)
