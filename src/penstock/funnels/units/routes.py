"""HTTP routes for single units: lists, traces and explanations."""

from urllib.parse import unquote

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.row_files import MEDIA_TYPES as ROW_MEDIA_TYPES
from penstock.funnels.queries.request import question
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


@question("units", "Units behind a number")
def list_units(
    caller: Caller, units: UnitService, funnel_id: str, query: UnitsQuery
) -> UnitsRecord:
    """Returns the attempts or visitors that a report counts, newest entry first by default."""
    return units.units(caller.workspace_id, funnel_id, query)


@question("export/units", "Export of a list of units", returns=tuple(MEDIA_TYPES.values()))
def export_units(
    caller: Caller,
    unit_exports: UnitExporter,
    audit_log: AuditLog,
    funnel_id: str,
    query: UnitExportQuery,
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with a row for each unit of the list, on all pages.

    At most 100,000 units.
    """
    file, name = unit_exports.export(caller.workspace_id, funnel_id, query)
    audit_log.record(caller, Action.EXPORTED, f"{funnel_id} units {query.format}")
    return file_download(file, name, MEDIA_TYPES[Format(query.format)])


@question("units/{unit:path}", "Trace of one unit")
def read_trace(
    request: AnyRequest, caller: Caller, traces: TraceReader, funnel_id: str, query: AdHocQuery
) -> TraceRecord:
    """Returns all events of an attempt or a visitor in reading order, each with its decision."""
    return traces.trace(caller.workspace_id, funnel_id, query, unit=unit_in_path(request))


def unit_in_path(request: AnyRequest) -> str:
    """Return the rest of the path after `/units/`. An ID may contain slashes, encoded or not."""
    return unquote(raw_path_after(request, "/units/"))


@question("explain", "Why an event counts or not")
def explain_event(
    caller: Caller, traces: TraceReader, funnel_id: str, query: ExplainQuery
) -> ExplainRecord:
    """Returns one stored event: its unit, whether it counts, and why."""
    return traces.explain(caller.workspace_id, funnel_id, query)


@question("unit-table", "Outcomes of all units", returns=tuple(ROW_MEDIA_TYPES.values()))
def export_unit_table(
    caller: Caller,
    unit_tables: UnitTableWriter,
    audit_log: AuditLog,
    funnel_id: str,
    query: UnitTableQuery,
) -> Response[bytes]:
    """Returns a Parquet or NDJSON file with a row for each attempt or visitor of the report.

    A row has the entry, the cohort, the outcome and the time of each completed step. A file has at
    most 5,000,000 units, and is written within an hour.
    """
    file = unit_tables.write(caller.workspace_id, funnel_id, query)
    audit_log.record(caller, Action.EXPORTED, f"{funnel_id} units")
    return file_download(file, f"units.{query.format}", ROW_MEDIA_TYPES[query.format])


ROUTES = (list_units, export_units, read_trace, explain_event, export_unit_table)
