"""HTTP routes for single units: lists, traces and explanations."""

from functools import partial
from urllib.parse import unquote

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.base.row_files import MEDIA_TYPES as ROW_MEDIA_TYPES
from penstock.funnels.queries.request import FunnelRequest, describe_query
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.results.tables import MEDIA_TYPES, Format
from penstock.funnels.units.export import UnitExporter
from penstock.funnels.units.schema import (
    ExplainQuery,
    ExplainRecord,
    TraceRecord,
    UnitExportQuery,
    UnitsQuery,
    UnitsRecord,
    UnitTableQuery,
)
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.table import UnitTableWriter
from penstock.funnels.units.trace_reader import TraceReader
from penstock.http.answers import file_download
from penstock.http.requests import AnyRequest, raw_path_after


@get(
    "/api/funnels/{funnel_id:str}/units",
    opt=describe_query("Units behind a number", UnitsQuery, UnitsRecord),
)
async def list_units(
    funnel: NamedDependency[FunnelRequest], units: NamedDependency[UnitService]
) -> Response[bytes]:
    """Returns the attempts or visitors that a report counts, newest entry first by default."""
    return await funnel.respond(UnitsQuery, units.units)


@get(
    "/api/funnels/{funnel_id:str}/export/units",
    opt=describe_query(
        "Export of a list of units", UnitExportQuery, returns=tuple(MEDIA_TYPES.values())
    ),
)
async def export_units(
    funnel: NamedDependency[FunnelRequest],
    unit_exports: NamedDependency[UnitExporter],
    caller: NamedDependency[Caller],
    audit_log: NamedDependency[AuditLog],
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with a row for each unit of the list, on all pages.

    At most 100,000 units.
    """

    def export(
        workspace_id: WorkspaceId, funnel_id: str, query: UnitExportQuery
    ) -> Response[bytes]:
        file, name = unit_exports.export(workspace_id, funnel_id, query)
        audit_log.record(caller, Action.EXPORTED, f"{funnel_id} units {query.format}")
        return file_download(file, name, MEDIA_TYPES[Format(query.format)])

    return await funnel.respond(UnitExportQuery, export)


@get(
    "/api/funnels/{funnel_id:str}/units/{unit:path}",
    opt=describe_query("Trace of one unit", AdHocQuery, TraceRecord),
)
async def read_trace(
    request: AnyRequest,
    funnel: NamedDependency[FunnelRequest],
    traces: NamedDependency[TraceReader],
) -> Response[bytes]:
    """Returns all events of an attempt or a visitor in reading order, each with its decision."""
    return await funnel.respond(AdHocQuery, partial(traces.trace, unit=unit_in_path(request)))


def unit_in_path(request: AnyRequest) -> str:
    """Return the rest of the path after `/units/`. An ID may contain slashes, encoded or not."""
    return unquote(raw_path_after(request, "/units/"))


@get(
    "/api/funnels/{funnel_id:str}/explain",
    opt=describe_query("Why an event counts or not", ExplainQuery, ExplainRecord),
)
async def explain_event(
    funnel: NamedDependency[FunnelRequest], traces: NamedDependency[TraceReader]
) -> Response[bytes]:
    """Returns one stored event: its unit, whether it counts, and why."""
    return await funnel.respond(ExplainQuery, traces.explain)


@get(
    "/api/funnels/{funnel_id:str}/unit-table",
    opt=describe_query(
        "Outcomes of all units", UnitTableQuery, returns=tuple(ROW_MEDIA_TYPES.values())
    ),
)
async def export_unit_table(
    funnel: NamedDependency[FunnelRequest],
    unit_tables: NamedDependency[UnitTableWriter],
    caller: NamedDependency[Caller],
    audit_log: NamedDependency[AuditLog],
) -> Response[bytes]:
    """Returns a Parquet or NDJSON file with a row for each attempt or visitor of the report.

    A row has the entry, the cohort, the outcome and the time of each completed step. A file has at
    most 5,000,000 units, and is written within an hour.
    """

    def export(workspace_id: WorkspaceId, funnel_id: str, query: UnitTableQuery) -> Response[bytes]:
        file = unit_tables.write(workspace_id, funnel_id, query)
        audit_log.record(caller, Action.EXPORTED, f"{funnel_id} units")
        return file_download(file, f"units.{query.format}", ROW_MEDIA_TYPES[query.format])

    return await funnel.respond(UnitTableQuery, export)


ROUTES = (list_units, export_units, read_trace, explain_event, export_unit_table)
