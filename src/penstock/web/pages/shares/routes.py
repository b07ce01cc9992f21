"""Shared reports: the public page, its picture and figures, and the list in the settings."""

from functools import partial
from hashlib import sha256

from litestar import Response

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import iso
from penstock.base.errors import NotFound, PenstockError, Unavailable
from penstock.base.paging import Listing
from penstock.funnels.results.schema import ReportQuery
from penstock.funnels.shown_forecasts import shown_forecast
from penstock.funnels.shown_rates import shown_rate
from penstock.http.problems import on_penstock_error
from penstock.http.requests import AnyRequest, is_prefetch
from penstock.http.schema import PageQuery
from penstock.settings import DAY_S
from penstock.shares.answers import MAX_AGE_S, SharedReports
from penstock.shares.bars import (
    PICTURE_POLICY,
    bars_of,
    days_in_words,
    missing_picture,
    period_words_of,
    picture,
    rate_of,
)
from penstock.shares.model import DEFAULT_DAYS
from penstock.shares.schema import SharedReportRecord, ShareRecord, SharesQuery
from penstock.shares.service import ShareService, not_shared, read_selection
from penstock.web.page_routes import page
from penstock.web.pages.funnel_page import FunnelPages
from penstock.web.rendering import html
from penstock.web.view import View

_DAYS = (7, 30, DEFAULT_DAYS, 365)
_PERIODS = {
    "7d": "Last 7 days",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
    "settled": "Last 7 settled days",
    "all": "All time",
}
_RELATIVE = ("period", "start", "end")
_MAX_ROWS = 20
_PUBLIC = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}
_CACHED = {**_PUBLIC, "Cache-Control": f"public, max-age={MAX_AGE_S}"}
_PICTURE = {
    "Content-Security-Policy": PICTURE_POLICY,
    "Cross-Origin-Resource-Policy": "cross-origin",  # other sites show it
}


@page("/s/{name:str}")
async def shared_report(
    request: AnyRequest, name: str, shares: ShareService, shared_reports: SharedReports
) -> Response[bytes]:
    """A report as a page or, by the ending of its address, as SVG or JSON."""
    token, dot, ending = name.partition(".")
    try:
        if dot and ending not in ("svg", "json"):
            raise not_shared()
        share = await shares.find(token)
        report = await shared_reports.read(share)
    except (NotFound, Unavailable) as error:
        return _refusal(request, ending, error)
    if request.method == "GET" and not is_prefetch(request):
        shares.count_open(share)
    if ending == "svg":
        return _cached(request, picture(report).encode(), "image/svg+xml", _PICTURE)
    if ending == "json":
        return _cached(request, report.model_dump_json().encode(), "application/json", {})
    return _page(request, report)


def _page(request: AnyRequest, report: SharedReportRecord) -> Response[bytes]:
    content = {
        "report": report,
        "bars": bars_of(report),
        "rate": rate_of(report),
        "forecast": shown_forecast(report.forecast),
        "period": period_words_of(report),
        "cohorts": report.cohorts[:_MAX_ROWS],
        "cohort_rate": partial(shown_rate, has_window=report.has_window),
    }
    response = html(request, "shares/report.html", content)
    response.headers.update(_PUBLIC)
    return response


def _cached(
    request: AnyRequest, body: bytes, media_type: str, headers: dict[str, str]
) -> Response[bytes]:
    """Return a response that caches keep as long as the report, and then check again."""
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {**_CACHED, **headers, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)


def _refusal(request: AnyRequest, ending: str, error: PenstockError) -> Response[bytes]:
    if ending == "json":
        response = on_penstock_error(request, error)
    elif ending == "svg":
        body = missing_picture(error.detail).encode()
        response = Response(body, status_code=error.status, media_type="image/svg+xml")
        response.headers.update(_PICTURE)
    else:
        response = html(request, "shares/refused.html", {"error": error}, status=error.status)
    if isinstance(error, Unavailable):
        response.headers["Retry-After"] = str(error.retry_after_s or MAX_AGE_S)
    response.headers.update(_PUBLIC)
    return response


@page("/settings/shares")
def list_of_shares(view: View, shares: ShareService) -> Response[bytes]:
    query = view.query(SharesQuery)
    listing = shares.page(view.workspace_id, query.pagination, query.funnel_id)
    return view.render(
        "shares/list.html", parts=("shares",), shares=listing, periods=_periods(listing)
    )


@page("/funnels/{funnel_id:str}/share")
def share(
    view: View,
    funnel_id: str,
    funnel_pages: FunnelPages,
    shares: ShareService,
    limits: WorkspaceService,
) -> Response[bytes]:
    """Shares a report as it is selected, and lists the shared reports on its funnel."""
    query = view.query(ReportQuery, view.websites)
    report = funnel_pages.load(funnel_id, query)
    span = query.span(view.now_ms, report.definition.window_s or 0)
    selection = {name: value for name, value in report.selection.items() if name != "revision"}
    fixed = {name: value for name, value in selection.items() if name not in _RELATIVE}
    listing = shares.page(view.workspace_id, view.query(PageQuery).pagination, funnel_id)
    return view.render(
        "shares/new.html",
        parts=("shares",),
        report=report,
        selection=selection,
        days=span and days_in_words(*span, query.zone),
        fixed=span and {**fixed, "startAt": iso(span[0]), "endAt": iso(span[1])},
        relative=span and _relative(query),
        expiries=[(iso(view.now_ms + days * DAY_S * 1000), f"In {days} days") for days in _DAYS],
        expires=iso(view.now_ms + DEFAULT_DAYS * DAY_S * 1000),
        properties=limits.shared_contents(view.workspace_id).properties,
        shares=listing,
        periods=_periods(listing),
    )


def _periods(listing: Listing[ShareRecord]) -> dict[str, str]:
    """Return the period of each share in words, by its ID."""
    queries = {share.id: read_selection(share.parameters) for share in listing.data}
    return {
        share_id: _relative(query) or days_in_words(*(query.span(0) or (0, 1)), query.zone)
        for share_id, query in queries.items()
    }


def _relative(query: ReportQuery) -> str | None:
    """Return a period that moves with the time in words; None for any other period."""
    return None if query.start_at is not None else _PERIODS.get(query.period)


ROUTES = (shared_report, list_of_shares, share)
