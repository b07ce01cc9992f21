"""HTTP routes for saved cohorts."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.fair_queue import FairQueue
from penstock.funnels.results.tables import MEDIA_TYPES, Format
from penstock.funnels.saved_cohorts.export import CohortExporter
from penstock.funnels.saved_cohorts.model import MAX_COHORT_BYTES
from penstock.funnels.saved_cohorts.schema import (
    CohortChange,
    CohortExportQuery,
    CohortIn,
    CohortVisitorRecord,
    SavedCohortRecord,
)
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.http.answers import (
    answer,
    answer_list,
    file_download,
    listing,
    no_content,
)
from penstock.http.bodies import read_bytes, read_json, read_query, require_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery, SearchQuery
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


@post(
    "/api/cohorts",
    opt=described(
        "Save a cohort", body=CohortIn, answers=SavedCohortRecord, job=JobRecord, tag="cohorts"
    ),
)
async def create_cohort(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    cohorts: NamedDependency[SavedCohortService],
    respond: NamedDependency[CancellableResponse],
    validation: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Saves the visitors of a list of units, as a list or as a rule, or a list of named visitors.

    Names are unique in the workspace. A workspace has at most 100 cohorts.
    """
    require_json(request)
    body = await read_bytes(request, max_bytes=MAX_COHORT_BYTES)
    cohort = await validation.run(caller.workspace_id, cohorts.read, body, CohortIn)
    return await respond(lambda: answer(cohorts.create(caller, cohort), status=201))


@get(
    "/api/cohorts",
    opt=described(
        "Saved cohorts", answers=SavedCohortRecord, query=SearchQuery, listed=True, tag="cohorts"
    ),
)
async def list_cohorts(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    cohorts: NamedDependency[SavedCohortService],
) -> Response[bytes]:
    """List saved cohorts, newest first."""
    query = read_query(request, SearchQuery)
    return await answer_list(
        await to_thread.run_sync(cohorts.page, caller.workspace_id, query.pagination, query.search)
    )


@get(
    "/api/cohorts/{cohort_id:str}",
    opt=described("A saved cohort", answers=SavedCohortRecord, tag="cohorts"),
)
async def read_cohort(
    cohort_id: FromPath[str],
    caller: NamedDependency[Caller],
    cohorts: NamedDependency[SavedCohortService],
) -> Response[bytes]:
    return answer(await to_thread.run_sync(cohorts.get, caller.workspace_id, cohort_id))


@get(
    "/api/cohorts/{cohort_id:str}/visitors",
    opt=described(
        "Visitors of a cohort",
        answers=CohortVisitorRecord,
        query=PageQuery,
        listed=True,
        job=JobRecord,
        tag="cohorts",
    ),
)
async def list_cohort_visitors(
    request: AnyRequest,
    cohort_id: FromPath[str],
    caller: NamedDependency[Caller],
    cohorts: NamedDependency[SavedCohortService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List the canonical visitors of a cohort. A rule is evaluated now."""
    page = read_query(request, PageQuery).pagination
    return await respond(lambda: listing(cohorts.visitors(caller.workspace_id, cohort_id, page)))


@get(
    "/api/cohorts/{cohort_id:str}/export",
    opt=described(
        "Export of a cohort",
        query=CohortExportQuery,
        returns=tuple(MEDIA_TYPES.values()),
        job=JobRecord,
        tag="cohorts",
    ),
)
async def export_cohort(
    request: AnyRequest,
    cohort_id: FromPath[str],
    caller: NamedDependency[Caller],
    cohort_exports: NamedDependency[CohortExporter],
    audit_log: NamedDependency[AuditLog],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns a CSV, JSON or Parquet file with a row for each visitor of a cohort."""
    file_format = Format(read_query(request, CohortExportQuery).format)

    def export() -> Response[bytes]:
        file, name = cohort_exports.export(caller.workspace_id, cohort_id, file_format)
        audit_log.record(caller, Action.EXPORTED, f"{cohort_id} {file_format}")
        return file_download(file, name, MEDIA_TYPES[file_format])

    return await respond(export)


@patch(
    "/api/cohorts/{cohort_id:str}",
    opt=described("Rename a cohort", body=CohortChange, answers=SavedCohortRecord, tag="cohorts"),
)
async def rename_cohort(
    request: AnyRequest,
    cohort_id: FromPath[str],
    caller: NamedDependency[Caller],
    cohorts: NamedDependency[SavedCohortService],
) -> Response[bytes]:
    change = await read_json(request, CohortChange)
    return answer(await to_thread.run_sync(partial(cohorts.rename, caller, cohort_id, change)))


@delete("/api/cohorts/{cohort_id:str}", opt=described("Delete a cohort", tag="cohorts"))
async def delete_cohort(
    cohort_id: FromPath[str],
    caller: NamedDependency[Caller],
    cohorts: NamedDependency[SavedCohortService],
) -> Response[None]:
    """A report whose filters name a deleted cohort gets an error (400)."""
    await to_thread.run_sync(cohorts.delete, caller, cohort_id)
    return no_content()


ROUTES = (
    create_cohort,
    list_cohorts,
    read_cohort,
    list_cohort_visitors,
    export_cohort,
    rename_cohort,
    delete_cohort,
)
