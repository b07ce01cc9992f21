"""HTTP routes for the dry runs of imports, from the summary to the start."""

from anyio import to_thread
from litestar import Response, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import CHECKS_WEBSITE
from penstock.accounts.model import Caller
from penstock.events.imports.dry_runs.schema import ImportSummaryRecord, StartQuery
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.events.imports.formats.schema import CompleteMapping
from penstock.events.imports.schema import ImportRecord
from penstock.http.answers import answer
from penstock.http.bodies import compute_on, parse_model, read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope


@get(
    "/api/imports/{import_id:str}/summary",
    opt=described(
        "What the dry run of an import shows",
        answers=ImportSummaryRecord,
        scopes=(KeyScope.INGEST, KeyScope.READ),
        tag="imports",
    )
    | {CHECKS_WEBSITE: True},
)
async def read_import_summary(
    import_id: FromPath[str],
    caller: NamedDependency[Caller],
    dry_runs: NamedDependency[DryRunService],
) -> Response[bytes]:
    """Return what a file contains, once its dry run has ended."""
    return answer(await to_thread.run_sync(dry_runs.summary, caller, import_id))


@put(
    "/api/imports/{import_id:str}/mapping",
    opt=described(
        "Change the mapping of an import before its start",
        body=CompleteMapping,
        answers=ImportRecord,
        scopes=(KeyScope.INGEST,),
        tag="imports",
    )
    | {CHECKS_WEBSITE: True},
)
async def change_import_mapping(
    import_id: FromPath[str],
    request: AnyRequest,
    caller: NamedDependency[Caller],
    dry_runs: NamedDependency[DryRunService],
) -> Response[bytes]:
    """Change the uses of a table's columns. The dry run then reads the file again."""
    require_json(request)
    body = await read_bytes(request)
    mapping = await compute_on(body, parse_model, body, CompleteMapping)
    return answer(
        ImportRecord.from_job(
            await to_thread.run_sync(dry_runs.change_mapping, caller, import_id, mapping)
        )
    )


@post(
    "/api/imports/{import_id:str}/start",
    status_code=200,
    opt=described(
        "Start an import after its dry run",
        query=StartQuery,
        answers=ImportRecord,
        scopes=(KeyScope.INGEST,),
        tag="imports",
    )
    | {CHECKS_WEBSITE: True},
)
async def start_import(
    import_id: FromPath[str],
    request: AnyRequest,
    caller: NamedDependency[Caller],
    dry_runs: NamedDependency[DryRunService],
) -> Response[bytes]:
    """Begin the import of the file that the dry run has read."""
    revision = read_query(request, StartQuery).revision
    return answer(
        ImportRecord.from_job(await to_thread.run_sync(dry_runs.start, caller, import_id, revision))
    )


ROUTES = (read_import_summary, change_import_mapping, start_import)
