"""The attribution report: traffic and funnel completions by campaign or link."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from litestar import Response

from penstock.base.paging import Listing
from penstock.funnels.campaigns.schema import (
    AttributionQuery,
    AttributionRecord,
    AttributionTrendQuery,
    GroupBy,
)
from penstock.funnels.campaigns.service import CampaignService
from penstock.funnels.definitions.schema import FunnelRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.schema import NoteCode
from penstock.funnels.results.schema import ResultsQuery
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.shown_rates import final_from_ms, shown_rate
from penstock.web.page_routes import slow_page
from penstock.web.pages.attribution.schema import AttributionPageQuery
from penstock.web.pages.charts import chart, counts
from penstock.web.pages.funnel_page import no_window_note
from penstock.web.pages.parts import load_part
from penstock.web.view import View

GROUPS = {
    GroupBy.SOURCE: "Source",
    GroupBy.MEDIUM: "Medium",
    GroupBy.CAMPAIGN: "Campaign",
    GroupBy.LINK: "Link",
}


@slow_page("/attribution")
def attribution_page(
    view: View,
    campaigns: CampaignService,
    funnels: FunnelService,
    funnel_queries: FunnelQueryRunner,
) -> Response[bytes]:
    query = view.query(AttributionPageQuery, view.websites)
    funnel = None if query.funnel_id is None else funnels.get(view.workspace_id, query.funnel_id)
    load = partial(_figures, campaigns, funnel_queries, view, query, funnel)
    return view.render(
        "attribution/page.html",
        parts=("figures",),
        query=query,
        window_s=_window_s(funnel),
        website=view.website(query.website_id),
        funnel=funnel,
        funnel_names=funnels.names(view.workspace_id),
        groups=GROUPS,
        figures=load_part(view, "figures", load),
    )


def _window_s(funnel: FunnelRecord | None) -> int:
    return 0 if funnel is None else funnel.window_s or 0


def _figures(
    campaigns: CampaignService,
    runner: FunnelQueryRunner,
    view: View,
    query: AttributionPageQuery,
    funnel: FunnelRecord | None,
) -> dict[str, Any]:
    parameters = query.parameters(view.now_ms, _window_s(funnel))
    paging = {"page": query.page, "pageSize": query.page_size}
    record = campaigns.report(
        view.workspace_id, AttributionQuery.model_validate({**parameters, **paging})
    )
    return {
        "trend": _trend(campaigns, view, query, parameters),
        "report": record,
        "notes": _notes(record, funnel),
        "rate_of": partial(shown_rate, has_window=bool(_window_s(funnel))),
        "final_from_ms": _final_from_ms(runner, view, record, funnel, parameters),
        "listing": Listing(record.data, query.pagination, record.total),
        "address": urlencode(parameters, quote_via=quote),
    }


def _final_from_ms(
    runner: FunnelQueryRunner,
    view: View,
    record: AttributionRecord,
    funnel: FunnelRecord | None,
    parameters: Mapping[str, str],
) -> int | None:
    """Return when the rates of the funnel are final, if they are rates so far."""
    if funnel is None:
        return None
    rate = shown_rate(record.totals, has_window=bool(_window_s(funnel)))
    names = ("websiteId", "startAt", "endAt", "internal")
    selection = {name: parameters[name] for name in names if name in parameters}
    context = runner.prepare_saved(
        view.workspace_id, funnel.id, ResultsQuery.model_validate(selection)
    )
    return final_from_ms(runner, context, rate)


def _trend(
    campaigns: CampaignService,
    view: View,
    query: AttributionPageQuery,
    parameters: Mapping[str, str],
) -> dict[str, Any] | None:
    """Return traffic over time, with the input for `static/charts.js`; None for all time."""
    if "startAt" not in parameters:
        return None
    names = {"groupBy", "websiteId", "startAt", "endAt"}
    sent = {name: value for name, value in parameters.items() if name in names}
    sent |= query.buckets()
    record = campaigns.trend(view.workspace_id, AttributionTrendQuery.model_validate(sent))
    series = [counts(row.label, row.clicks) for row in record.values]
    axes = (record.interval.capitalize(), "Clicks")
    times = [bucket.from_ for bucket in record.data]
    return {"record": record, "chart": chart(times, query.timezone, axes, series)}


def _notes(record: AttributionRecord, funnel: FunnelRecord | None) -> list[str]:
    """Return the notes about the funnel's coverage, worded for the pages."""
    if record.coverage is None or funnel is None:
        return []
    notes = [
        no_window_note(f"{funnel.unit_word}s") if code is NoteCode.NO_WINDOW else note
        for note, code in zip(record.coverage.notes, record.coverage.note_codes, strict=True)
    ]
    return list(dict.fromkeys(notes))  # imports of the same minute have the same note


ROUTES = (attribution_page,)
