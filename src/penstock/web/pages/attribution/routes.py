"""The attribution report: traffic and funnel completions by campaign or link."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock, parse_time
from penstock.base.paging import MAX_PAGE_SIZE, Listing, Page
from penstock.funnels.campaigns.schema import (
    AttributionQuery,
    AttributionRecord,
    AttributionTrendQuery,
    GroupBy,
)
from penstock.funnels.campaigns.service import CampaignService
from penstock.funnels.definitions.schema import FunnelRecord
from penstock.funnels.queries.schema import NoteCode
from penstock.funnels.saved.service import FunnelService
from penstock.jobs.cancellable import CancellableResponse
from penstock.settings import Settings
from penstock.web.pages.attribution.schema import AttributionPageQuery
from penstock.web.pages.funnel_page import no_window_note
from penstock.web.pages.parts import load_part
from penstock.web.view import View

GROUPS = {
    GroupBy.SOURCE: "Source",
    GroupBy.MEDIUM: "Medium",
    GroupBy.CAMPAIGN: "Campaign",
    GroupBy.LINK: "Link",
}


@get("/attribution")
async def attribution_page(
    view: NamedDependency[View],
    campaigns: NamedDependency[CampaignService],
    funnels: NamedDependency[FunnelService],
    website_service: NamedDependency[WebsiteService],
    settings: NamedDependency[Settings],
    clock: NamedDependency[Clock],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    def render() -> Response[bytes]:
        websites = website_service.websites(view.workspace_id)
        query = view.drop_foreign_website(view.query(AttributionPageQuery), websites)
        funnel = _funnel(funnels, view, query)
        now_ms = clock()
        window_s = 0 if funnel is None else funnel.window_s or 0

        def figures() -> dict[str, object]:
            parameters = query.parameters(now_ms, window_s)
            paging = {"page": query.page, "pageSize": query.page_size}
            record = campaigns.report(
                view.workspace_id, AttributionQuery.model_validate({**parameters, **paging})
            )
            return {
                "trend": _trend(campaigns, view, query, parameters),
                "report": record,
                "notes": _notes(record, funnel),
                "listing": Listing(record.data, query.pagination, record.total),
                "address": urlencode(parameters, quote_via=quote),
            }

        return view.render(
            "attribution/page.html",
            parts=("figures",),
            query=query,
            now_ms=now_ms,
            window_s=window_s,
            websites=websites,
            website=next((site for site in websites if site.id == query.website_id), None),
            funnel=funnel,
            funnels=funnels.page(view.workspace_id, Page(1, MAX_PAGE_SIZE)).data,
            groups=GROUPS,
            figures=load_part(view, "figures", figures),
            base_url=settings.base_url,
        )

    return await respond(render)


def _trend(
    campaigns: CampaignService,
    view: View,
    query: AttributionPageQuery,
    parameters: Mapping[str, str],
) -> dict[str, object] | None:
    """Return traffic over time, with the input for `static/charts.js`; None for all time."""
    if "startAt" not in parameters:
        return None
    names = {"groupBy", "websiteId", "startAt", "endAt"}
    sent = {name: value for name, value in parameters.items() if name in names}
    sent |= {"interval": query.interval, "timezone": query.timezone}
    record = campaigns.trend(view.workspace_id, AttributionTrendQuery.model_validate(sent))
    chart = {
        "times": [parse_time(bucket.from_) // 1000 for bucket in record.data],
        "zone": query.timezone,
        "axes": {"x": query.interval.capitalize(), "y": "Clicks"},
        "series": [
            {"label": row.label, "values": row.clicks, "style": "number"} for row in record.values
        ],
    }
    return {"record": record, "chart": chart}


def _notes(record: AttributionRecord, funnel: FunnelRecord | None) -> list[str]:
    """Return the notes about the funnel's coverage, worded for the pages."""
    if record.coverage is None or funnel is None:
        return []
    return [
        no_window_note(f"{funnel.unit_word}s") if code is NoteCode.NO_WINDOW else note
        for note, code in zip(record.coverage.notes, record.coverage.note_codes, strict=True)
    ]


def _funnel(funnels: FunnelService, view: View, query: AttributionPageQuery) -> FunnelRecord | None:
    """Find the selected funnel, if any. Raises `NotFound` if the funnel is unknown."""
    return None if query.funnel_id is None else funnels.get(view.workspace_id, query.funnel_id)


ROUTES = (attribution_page,)
