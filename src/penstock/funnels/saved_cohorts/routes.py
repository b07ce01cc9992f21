"""HTTP routes for saved cohorts."""

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.base.table_files import MEDIA_TYPES
from penstock.funnels.saved_cohorts.export import export_visitors
from penstock.funnels.saved_cohorts.model import MAX_COHORT_BYTES
from penstock.funnels.saved_cohorts.schema import (
    CohortChange,
    CohortExportQuery,
    CohortIn,
    CohortVisitorRecord,
    SavedCohortRecord,
)
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.http.answers import file_download
from penstock.http.handlers import route
from penstock.http.schema import PageQuery, SearchQuery
from penstock.jobs.cancellable import slow_route

_ALL = "/api/cohorts"
_ONE = "/api/cohorts/{cohort_id:str}"


@slow_route(
    "POST",
    _ALL,
    "Save a cohort",
    max_bytes=MAX_COHORT_BYTES,
    validated_by="cohorts",
    queue="validation",
    tag="cohorts",
)
def create_cohort(
    caller: Caller, cohorts: SavedCohortService, cohort: CohortIn
) -> SavedCohortRecord:
    """Saves the visitors of a list of units, as a list or as a rule, or a list of named visitors.

    Names are unique in the workspace. A workspace has at most 100 cohorts.
    """
    return cohorts.create(caller, cohort)


@route("GET", _ALL, "Saved cohorts", tag="cohorts")
def list_cohorts(
    caller: Caller, cohorts: SavedCohortService, query: SearchQuery
) -> Listing[SavedCohortRecord]:
    """List saved cohorts, newest first."""
    return cohorts.page(caller.workspace_id, query.pagination, query.search)


@route("GET", _ONE, "A saved cohort", tag="cohorts")
def read_cohort(caller: Caller, cohorts: SavedCohortService, cohort_id: str) -> SavedCohortRecord:
    return cohorts.get(caller.workspace_id, cohort_id)


@slow_route("GET", f"{_ONE}/visitors", "Visitors of a cohort", tag="cohorts")
def list_cohort_visitors(
    caller: Caller, cohorts: SavedCohortService, cohort_id: str, query: PageQuery
) -> Listing[CohortVisitorRecord]:
    """List the canonical visitors of a cohort. A rule is evaluated now."""
    return cohorts.visitors(caller.workspace_id, cohort_id, query.pagination)


@slow_route(
    "GET",
    f"{_ONE}/export",
    "Export of a cohort",
    returns=tuple(MEDIA_TYPES.values()),
    tag="cohorts",
)
def export_cohort(
    caller: Caller,
    cohorts: SavedCohortService,
    audit_log: AuditLog,
    cohort_id: str,
    query: CohortExportQuery,
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with a row for each visitor of a cohort."""
    file, name = export_visitors(cohorts, caller.workspace_id, cohort_id, query.format)
    audit_log.record(caller, Action.EXPORTED, f"{cohort_id} {query.format}")
    return file_download(file, name, MEDIA_TYPES[query.format])


@route("PATCH", _ONE, "Rename a cohort", tag="cohorts")
def rename_cohort(
    caller: Caller, cohorts: SavedCohortService, cohort_id: str, change: CohortChange
) -> SavedCohortRecord:
    return cohorts.rename(caller, cohort_id, change)


@route("DELETE", _ONE, "Delete a cohort", tag="cohorts")
def delete_cohort(caller: Caller, cohorts: SavedCohortService, cohort_id: str) -> None:
    """A cohort that a funnel names cannot be deleted (409). A report whose filters or breakdown
    name a deleted cohort gets an error (400).
    """
    cohorts.delete(caller, cohort_id)


ROUTES = (
    create_cohort,
    list_cohorts,
    read_cohort,
    list_cohort_visitors,
    export_cohort,
    rename_cohort,
    delete_cohort,
)
