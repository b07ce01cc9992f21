"""Funnels: the list with its figures, and the builder."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.base.rates import rate
from penstock.funnels.definitions.definition import MAX_BREAKDOWNS, MAX_ROWS, MAX_STEPS, WINDOWS_S
from penstock.funnels.definitions.records import FunnelRecord
from penstock.funnels.insights.schema import TrendQuery
from penstock.funnels.insights.service import InsightService
from penstock.funnels.saved.service import FunnelService
from penstock.http.schema import SearchQuery
from penstock.jobs.answered import Answered
from penstock.settings import Settings
from penstock.web.sparkline import sparkline
from penstock.web.view import View

TREND_DAYS = 30
_DAY_MS = 86_400_000
_LONGEST_NAME = 200


@get("/funnels", sync_to_thread=True)
def list_page(view: NamedDependency[View], funnels: NamedDependency[FunnelService]) -> Response[bytes]:
    query = view.query(SearchQuery)
    found = funnels.page(view.workspace_id, query.asked, query.search)
    return view.render("funnels/list.html", parts=("list",), found=found, search=query.search, days=TREND_DAYS)


@get("/funnels/{funnel_id:str}/row")
async def row(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    funnels: NamedDependency[FunnelService],
    insights: NamedDependency[InsightService],
    clock: NamedDependency[Clock],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """One row of the list with its figures, which the list asks for by itself: no query of one funnel holds the page or another row."""

    def make() -> Response[bytes]:
        funnel = funnels.get(view.workspace_id, funnel_id)
        try:
            figures = _figures(view, insights, funnel, clock())
        except Unavailable as error:
            return view.render("funnels/row.html", funnel=funnel, figures=None, refusal=error)
        return view.render("funnels/row.html", funnel=funnel, figures=figures, refusal=None)

    return await answered(make)


def _figures(view: View, insights: InsightService, funnel: FunnelRecord, now_ms: int) -> dict[str, Any]:
    """Of the units that entered in the last days, today included. A unit enters once, so days add up."""
    end_ms = now_ms - now_ms % _DAY_MS + _DAY_MS
    query = TrendQuery.model_validate({"startAt": end_ms - TREND_DAYS * _DAY_MS, "endAt": end_ms})
    buckets = insights.trend(view.workspace_id, funnel.id, query).data
    entered = sum(bucket.entered for bucket in buckets)
    return {"entered": entered, "rate": rate(sum(bucket.completed for bucket in buckets), entered), "trend": sparkline(buckets)}


@get("/funnels/new", sync_to_thread=True)
def new_page(view: NamedDependency[View], funnels: NamedDependency[FunnelService], settings: NamedDependency[Settings]) -> Response[bytes]:
    """`from`: the funnel of which a copy is begun."""
    copied_id = view.request.query_params.get("from")
    copied = funnels.get(view.workspace_id, copied_id) if copied_id else None
    definition = None if copied is None else _form_data(copied) | {"name": f"Copy of {copied.name}"[:_LONGEST_NAME]}
    return _builder(view, settings, saved=None, definition=definition)


@get("/funnels/{funnel_id:str}/edit", sync_to_thread=True)
def edit_page(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    funnels: NamedDependency[FunnelService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    saved = funnels.get(view.workspace_id, funnel_id)
    return _builder(view, settings, saved=saved, definition=_form_data(saved))


def _form_data(funnel: FunnelRecord) -> dict[str, Any]:
    """The definition as the API takes it."""
    return {"name": funnel.name, **funnel.definition.model_dump(mode="json")}


def _builder(view: View, settings: Settings, *, saved: FunnelRecord | None, definition: dict[str, Any] | None) -> Response[bytes]:
    limits = {"rows": MAX_ROWS, "steps": MAX_STEPS, "breakdowns": MAX_BREAKDOWNS}
    return view.render(
        "funnels/builder.html", saved=saved, definition=definition, limits=limits, windows_s=WINDOWS_S, base_url=settings.base_url
    )


ROUTES = (list_page, row, new_page, edit_page)
