"""HTTP routes for the attribution report."""

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.table_files import MEDIA_TYPES
from penstock.funnels.campaigns.schema import (
    AttributionExportQuery,
    AttributionQuery,
    AttributionRecord,
    AttributionTrendQuery,
    AttributionTrendRecord,
)
from penstock.funnels.campaigns.service import CampaignService
from penstock.http.answers import file_download, file_name
from penstock.jobs.cancellable import slow_route


@slow_route("GET", "/api/attribution", "Attribution report", tag="attribution")
def read_attribution(
    caller: Caller, campaigns: CampaignService, query: AttributionQuery
) -> AttributionRecord:
    """Returns clicks, installs and opens by source, medium, campaign or link.

    With `funnelId`, the report also counts the funnel's units, by their visitor's first or last
    touch at entry. The period selects clicks, installs and opens by their time, and units by their
    entry.
    """
    return campaigns.report(caller.workspace_id, query)


@slow_route("GET", "/api/attribution/trend", "Traffic over time", tag="attribution")
def read_attribution_trend(
    caller: Caller, campaigns: CampaignService, query: AttributionTrendQuery
) -> AttributionTrendRecord:
    """Returns clicks, installs and opens over time, and the clicks of the most clicked values."""
    return campaigns.trend(caller.workspace_id, query)


@slow_route(
    "GET",
    "/api/attribution/export",
    "Export of the attribution report",
    returns=tuple(MEDIA_TYPES.values()),
    tag="attribution",
)
def export_attribution(
    caller: Caller, campaigns: CampaignService, audit_log: AuditLog, query: AttributionExportQuery
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with one row for the total and one for each value."""
    file = campaigns.export(caller.workspace_id, query)
    audit_log.record(caller, Action.EXPORTED, f"attribution {query.format}")
    name = file_name(f"attribution {query.group_by}", query.start_at, query.end_at, query.format)
    return file_download(file, name, MEDIA_TYPES[query.format])


ROUTES = (read_attribution, read_attribution_trend, export_attribution)
