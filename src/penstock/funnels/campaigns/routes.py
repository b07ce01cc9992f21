"""HTTP routes for the attribution report."""

from functools import partial

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.funnels.campaigns.schema import (
    AttributionExportQuery,
    AttributionQuery,
    AttributionRecord,
    AttributionTrendQuery,
    AttributionTrendRecord,
)
from penstock.funnels.campaigns.service import CampaignService
from penstock.funnels.results.tables import MEDIA_TYPES, Format
from penstock.http.answers import file_download, file_name
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


@get(
    "/api/attribution",
    opt=described(
        "Attribution report",
        answers=AttributionRecord,
        query=AttributionQuery,
        job=JobRecord,
        tag="attribution",
    ),
)
async def read_attribution(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    campaigns: NamedDependency[CampaignService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns clicks, installs and opens by source, medium, campaign or link.

    With `funnelId`, the report also counts the funnel's units, by their visitor's first or last
    touch at entry. The period selects clicks, installs and opens by their time, and units by their
    entry.
    """
    query = read_query(request, AttributionQuery)
    return await respond(partial(campaigns.report, caller.workspace_id, query))


@get(
    "/api/attribution/trend",
    opt=described(
        "Traffic over time",
        answers=AttributionTrendRecord,
        query=AttributionTrendQuery,
        job=JobRecord,
        tag="attribution",
    ),
)
async def read_attribution_trend(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    campaigns: NamedDependency[CampaignService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns clicks, installs and opens over time, and the clicks of the most clicked values."""
    query = read_query(request, AttributionTrendQuery)
    return await respond(partial(campaigns.trend, caller.workspace_id, query))


@get(
    "/api/attribution/export",
    opt=described(
        "Export of the attribution report",
        query=AttributionExportQuery,
        returns=tuple(MEDIA_TYPES.values()),
        job=JobRecord,
        tag="attribution",
    ),
)
async def export_attribution(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    campaigns: NamedDependency[CampaignService],
    audit_log: NamedDependency[AuditLog],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with one row for the total and one for each value."""
    query = read_query(request, AttributionExportQuery)

    def export() -> Response[bytes]:
        file = campaigns.export(caller.workspace_id, query)
        audit_log.record(caller, Action.EXPORTED, f"attribution {query.format}")
        media_type = MEDIA_TYPES[Format(query.format)]
        title = f"attribution {query.group_by}"
        name = file_name(title, query.start_at, query.end_at, query.format)
        return file_download(file, name, media_type)

    return await respond(export)


ROUTES = (read_attribution, read_attribution_trend, export_attribution)
