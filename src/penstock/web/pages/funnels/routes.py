"""The list of funnels with their figures, and the builder."""

from itertools import groupby
from typing import Any

from litestar import Response

from penstock.base.errors import Conflict, Unavailable
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.events.imports.service import ImportService
from penstock.funnels.definitions.schema import FunnelRecord, SavedDefinition
from penstock.funnels.forecasts.service import forecasts_of
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.results.schema import ReportQuery, ResultsQuery
from penstock.funnels.results.service import report_of
from penstock.funnels.saved.rows import MAX_ROWS, MAX_STEPS
from penstock.funnels.saved.schema import MAX_BREAKDOWNS
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.segments.service import SavedSegmentService
from penstock.funnels.shown_forecasts import shown_forecast
from penstock.funnels.shown_rates import final_from_ms, shown_rate
from penstock.funnels.trends import TrendQuery, read_trend
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.charts import chart, rates
from penstock.web.pages.funnel_page import why_impossible
from penstock.web.pages.funnels.first_funnel import equal_times_note, first_funnel
from penstock.web.pages.funnels.schema import PERIODS, FunnelListQuery, NewFunnelQuery
from penstock.web.view import View

_MAX_NAME_LENGTH = 200


@page("/funnels")
def list_page(
    view: View, funnels: FunnelService, internal_traffic: InternalTrafficService
) -> Response[bytes]:
    query, workspace_id = view.query(FunnelListQuery), view.workspace_id
    listed = funnels.page(
        workspace_id, query.pagination, query.search, query.sort, query.folder, by_folder=True
    )
    by_folder = groupby(listed.data, lambda funnel: funnel.folder)
    return view.render(
        "funnels/list.html",
        parts=("list",),
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


@slow_page("/funnels/{funnel_id:str}/row")
def row(
    view: View,
    funnel_id: str,
    funnels: FunnelService,
    funnel_queries: FunnelQueryRunner,
) -> Response[bytes]:
    """One row of the list. It loads separately, so that a slow funnel does not delay others."""
    funnel = funnels.get(view.workspace_id, funnel_id)
    shown: dict[str, Any] = {"funnel": funnel, "period": view.query(FunnelListQuery).period}
    try:
        figures = _figures(view, funnel_queries, funnel)
    except (Conflict, Unavailable) as error:
        return view.render("funnels/row.html", **shown, figures=None, error=error)
    return view.render("funnels/row.html", **shown, figures=figures, error=None)


def _figures(view: View, runner: FunnelQueryRunner, funnel: FunnelRecord) -> dict[str, Any]:
    """Compute figures for the period of the list, in the reader's time zone.

    The totals come from the report, because the trend may count a visitor on several days.
    """
    page = view.query(ReportQuery)
    selection = page.parameters(view.now_ms, window_s=funnel.window_s or 0)
    context = runner.prepare_saved(
        view.workspace_id, funnel.id, ResultsQuery.model_validate(selection)
    )
    forecasts = forecasts_of(runner, context, can_make=False)
    report = report_of(runner, context, forecasts)
    total = report.aggregate
    query = TrendQuery.model_validate(selection | {"timezone": page.timezone})
    trend = read_trend(runner, context, query)
    has_window = funnel.window_s is not None
    rate = shown_rate(total, has_window=has_window)
    return {
        "entered": total.entered,
        "rate": rate,
        "forecast": shown_forecast(report.forecast),
        "final_from_ms": final_from_ms(runner, context, rate),
        "impossible": why_impossible(runner, context, funnel.definition, report),
        "interval": trend.interval,
        "trend": chart(
            [bucket.from_ for bucket in trend.data],
            page.timezone,
            (f"{trend.interval.capitalize()} of entry", "Conversion rate"),
            [rates(trend.data, "Conversion rate", has_window=has_window)],
        ),
    }


@page("/funnels/new")
def new_page(
    view: View,
    funnels: FunnelService,
    segments: SavedSegmentService,
    imports: ImportService,
    dry_runs: DryRunService,
) -> Response[bytes]:
    """Form for a new funnel.

    The query parameter `from` is the ID of a funnel to copy. `import` is the ID of an import whose
    dry run suggests the steps, for attempts by `attemptProperty` or for visitors.
    """
    source_id = view.request.query_params.get("from")
    query = view.query(NewFunnelQuery)
    definition = note = website_id = None
    if query.import_:
        website_id = imports.find(view.reader.caller, query.import_).website_id
        summary = dry_runs.summary(view.reader.caller, query.import_)
        definition = first_funnel(summary, query.attempt_property)
        note = equal_times_note(summary, query.attempt_property)
    elif source_id:
        source = funnels.get(view.workspace_id, source_id)
        definition = _form_data(view, segments, source) | {
            "name": f"Copy of {source.name}"[:_MAX_NAME_LENGTH],
            "folder": source.folder,
        }
    return _builder(view, None, definition, note=note, website_id=website_id)


@page("/funnels/{funnel_id:str}/edit")
def edit_page(
    view: View, funnel_id: str, funnels: FunnelService, segments: SavedSegmentService
) -> Response[bytes]:
    saved = funnels.get(view.workspace_id, funnel_id)
    return _builder(view, saved, _form_data(view, segments, saved))


def _form_data(view: View, segments: SavedSegmentService, funnel: FunnelRecord) -> dict[str, Any]:
    """Return the definition in the format of an API request, with the changes of a report."""
    changes = segments.expand(view.workspace_id, view.query(AdHocQuery).ad_hoc)
    definition = changes.change_record(funnel.definition)
    return _as_request(funnel.name, definition)


def _as_request(name: str, definition: SavedDefinition) -> dict[str, Any]:
    return {"name": name, **definition.model_dump(mode="json")}


def _builder(
    view: View,
    saved: FunnelRecord | None,
    definition: dict[str, Any] | None,
    *,
    note: str | None = None,
    website_id: str | None = None,
) -> Response[bytes]:
    """Render the builder.

    note: how the suggested definition treats equal times, if the times of its events are coarse.
    website_id: the website of the import that suggested it, whose events may all be old.
    """
    return view.render(
        "funnels/builder.html",
        saved=saved,
        is_changed=saved is not None and definition != _as_request(saved.name, saved.definition),
        definition=definition,
        limits={"rows": MAX_ROWS, "steps": MAX_STEPS, "breakdowns": MAX_BREAKDOWNS},
        note=note,
        website_id=website_id,
    )


ROUTES = (list_page, row, new_page, edit_page)
