"""HTTP routes for the dry runs of imports, from the summary to the start."""

from functools import partial

from penstock.accounts.callers import CHECKS_WEBSITE
from penstock.accounts.model import Caller
from penstock.events.imports.dry_runs.schema import ImportStart, ImportSummaryRecord, StartQuery
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.events.imports.formats.schema import CompleteMapping
from penstock.events.imports.schema import ImportRecord
from penstock.http.bodies import DEFAULT_BODY_BYTES
from penstock.http.handlers import route
from penstock.http.scopes import KeyScope

_ONE = "/api/imports/{import_id:str}"
_import_route = partial(route, opt={CHECKS_WEBSITE: True}, tag="imports")


@_import_route(
    "GET",
    f"{_ONE}/summary",
    "What the dry run of an import shows",
    scopes=(KeyScope.INGEST, KeyScope.READ),
)
def read_import_summary(
    caller: Caller, dry_runs: DryRunService, import_id: str
) -> ImportSummaryRecord:
    """Return what a file contains, once its dry run has ended."""
    return dry_runs.summary(caller, import_id)


@_import_route(
    "PUT",
    f"{_ONE}/mapping",
    "Change the mapping of an import before its start",
    max_bytes=DEFAULT_BODY_BYTES,
    scopes=(KeyScope.INGEST,),
)
def change_import_mapping(
    caller: Caller, dry_runs: DryRunService, import_id: str, mapping: CompleteMapping
) -> ImportRecord:
    """Change the uses of a table's columns. The dry run then reads the file again."""
    return ImportRecord.from_job(dry_runs.change_mapping(caller, import_id, mapping))


@_import_route(
    "POST",
    f"{_ONE}/start",
    "Start an import after its dry run",
    status=200,
    max_bytes=DEFAULT_BODY_BYTES,
    scopes=(KeyScope.INGEST,),
)
def start_import(
    caller: Caller,
    dry_runs: DryRunService,
    import_id: str,
    query: StartQuery,
    start: ImportStart | None,
) -> ImportRecord:
    """Begin the import of the file that the dry run has read."""
    mapping = None if start is None else start.mapping
    return ImportRecord.from_job(dry_runs.start(caller, import_id, query.revision, mapping))


ROUTES = (read_import_summary, change_import_mapping, start_import)
