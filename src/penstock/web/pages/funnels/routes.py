"""The list of funnels with their figures, and the builder."""

from itertools import groupby
from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Unavailable
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.funnels.definitions.operators import operators_by_group
from penstock.funnels.definitions.schema import FunnelRecord
from penstock.funnels.insights.schema import TrendQuery
from penstock.funnels.insights.service import InsightService
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.results.schema import ResultsQuery
from penstock.funnels.results.service import ResultsService
from penstock.funnels.saved.rows import MAX_ROWS, MAX_STEPS
from penstock.funnels.saved.schema import (
    MAX_BREAKDOWNS,
    WINDOWS_S,
)
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.segments.service import SavedSegmentService
from penstock.jobs.cancellable import CancellableResponse
from penstock.settings import Settings
from penstock.web.pages.funnels.first_funnel import first_funnel
from penstock.web.pages.funnels.schema import PERIODS, FunnelListQuery, NewFunnelQuery
from penstock.web.pages.funnels.sparkline import sparkline
from penstock.web.pages.schema import FunnelPageQuery
from penstock.web.view import View

_MAX_NAME_LENGTH = 200


@get("/funnels", sync_to_thread=True)
def list_page(
    view: NamedDependency[View],
    funnels: NamedDependency[FunnelService],
    website_service: NamedDependency[WebsiteService],
    internal_traffic: NamedDependency[InternalTrafficService],
) -> Response[bytes]:
    query, workspace_id = view.query(FunnelListQuery), view.workspace_id
    listed = funnels.page(
        workspace_id, query.pagination, query.search, query.sort, query.folder, by_folder=True
    )
    by_folder = groupby(listed.data, lambda funnel: funnel.folder)
    return view.render(
        "funnels/list.html",
        parts=("list",),
        websites=website_service.websites(workspace_id),
        funnels=listed,
        groups=[(folder, list(members)) for folder, members in by_folder],
        folders=funnels.folders(workspace_id),
        folder=query.folder,
        search=query.search,
        sort=query.sort,
        period=query.period,
        periods=PERIODS,
        leaves_out_internal=bool(internal_traffic.get(workspace_id).filters),
    )


@get("/funnels/{funnel_id:str}/row")
async def row(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    funnels: NamedDependency[FunnelService],
    results: NamedDependency[ResultsService],
    insights: NamedDependency[InsightService],
    clock: NamedDependency[Clock],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """One row of the list. It loads separately, so that a slow funnel does not delay others."""

    def render() -> Response[bytes]:
        funnel = funnels.get(view.workspace_id, funnel_id)
        shown: dict[str, Any] = {"funnel": funnel, "period": view.query(FunnelListQuery).period}
        try:
            figures = _figures(view, results, insights, funnel, clock())
        except (Conflict, Unavailable) as error:
            return view.render("funnels/row.html", **shown, figures=None, error=error)
        return view.render("funnels/row.html", **shown, figures=figures, error=None)

    return await respond(render)


def _figures(
    view: View,
    results: ResultsService,
    insights: InsightService,
    funnel: FunnelRecord,
    now_ms: int,
) -> dict[str, Any]:
    """Compute figures for the period of the list, in the reader's time zone.

    The totals come from the report, because the trend may count a visitor on several days.
    """
    page = view.query(FunnelPageQuery)
    selection = page.parameters(now_ms, window_s=funnel.window_s or 0)
    context = results.prepare(
        view.workspace_id,
        SavedFunnel(funnel.id, page.revision),
        ResultsQuery.model_validate(selection),
    )
    total = results.report(context).aggregate
    query = TrendQuery.model_validate(selection | {"timezone": page.timezone})
    buckets = insights.compute_trend(context, query).data
    has_window = funnel.window_s is not None
    return {
        "entered": total.entered,
        "rate": total.settled_rate if has_window else total.conversion_rate,
        "is_unsettled": has_window and not total.settled,
        "trend": sparkline(buckets, has_window=has_window),
    }


@get("/funnels/new", sync_to_thread=True)
def new_page(
    view: NamedDependency[View],
    funnels: NamedDependency[FunnelService],
    segments: NamedDependency[SavedSegmentService],
    dry_runs: NamedDependency[DryRunService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Form for a new funnel.

    The query parameter `from` is the ID of a funnel to copy. `import` is the ID of an import whose
    dry run suggests the steps, for attempts by `attemptProperty` or for visitors.
    """
    source_id = view.request.query_params.get("from")
    query = view.query(NewFunnelQuery)
    definition = None
    if query.import_:
        summary = dry_runs.summary(view.reader.caller, query.import_)
        definition = first_funnel(summary, query.attempt_property)
    elif source_id:
        source = funnels.get(view.workspace_id, source_id)
        definition = _form_data(view, segments, source) | {
            "name": f"Copy of {source.name}"[:_MAX_NAME_LENGTH],
            "folder": source.folder,
        }
    return _builder(
        view, settings, saved=None, definition=definition, is_about_the_past=bool(query.import_)
    )


@get("/funnels/{funnel_id:str}/edit", sync_to_thread=True)
def edit_page(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    funnels: NamedDependency[FunnelService],
    segments: NamedDependency[SavedSegmentService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    saved = funnels.get(view.workspace_id, funnel_id)
    definition = _form_data(view, segments, saved)
    return _builder(view, settings, saved=saved, definition=definition)


def _form_data(view: View, segments: SavedSegmentService, funnel: FunnelRecord) -> dict[str, Any]:
    """Return the definition in the format of an API request, with the changes of a report."""
    changes = segments.expand(view.workspace_id, view.query(AdHocQuery).ad_hoc)
    definition = changes.change_record(funnel.definition)
    return {"name": funnel.name, **definition.model_dump(mode="json")}


def _builder(
    view: View,
    settings: Settings,
    *,
    saved: FunnelRecord | None,
    definition: dict[str, Any] | None,
    is_about_the_past: bool = False,
) -> Response[bytes]:
    """Render the builder. is_about_the_past: whether to count all events, not only recent ones."""
    limits = {"rows": MAX_ROWS, "steps": MAX_STEPS, "breakdowns": MAX_BREAKDOWNS}
    return view.render(
        "funnels/builder.html",
        saved=saved,
        definition=definition,
        limits=limits,
        windows_s=WINDOWS_S,
        operator_groups=operators_by_group(),
        base_url=settings.base_url,
        is_about_the_past=is_about_the_past,
    )


ROUTES = (list_page, row, new_page, edit_page)
