"""Imports, saved mappings, exports and deletions."""

import json

from litestar import Response

from penstock.activity.visitors.schema import VisitorDetailRecord, VisitorsQuery, WebsiteQuery
from penstock.activity.visitors.service import VisitorService
from penstock.base.errors import NotFound
from penstock.base.ids import WorkspaceId
from penstock.disk.model import FileKind
from penstock.disk.service import DiskService
from penstock.events.deletions.model import STEPS, Deletion, DeletionState
from penstock.events.deletions.service import DeletionService
from penstock.events.deletions.undos.service import ImportUndoService
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.events.imports.formats.schema import DecimalMark, TimeUnit, Use, ValueType
from penstock.events.imports.formats.table import READERS
from penstock.events.imports.formats.unpacking import COMPRESSED_ENDINGS
from penstock.events.imports.mappings.service import ImportMappingService
from penstock.events.imports.model import ImportJob, ImportState
from penstock.events.imports.schema import warning_records
from penstock.events.imports.service import ImportService
from penstock.exports.service import ExportService
from penstock.http.schema import PageQuery, RecordsQuery, SearchQuery
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.funnels.first_funnel import equal_times_note
from penstock.web.pages.imports.schema import NewDeletionQuery
from penstock.web.view import View

_USES = (
    (Use.TIME, "Time"),
    (Use.VISITOR, "Visitor ID"),
    (Use.USER, "User ID"),
    (Use.EVENT, "Event name"),
    (Use.TYPE, "Type of event"),
    (Use.ATTEMPT, "Attempt ID"),
    (Use.PROPERTY, "Property"),
    (Use.PROPERTIES, "Properties as JSON"),
    (Use.FIELD, "Field of an event"),
    (Use.IGNORED, "Not imported"),
)
_UNITS = (
    (TimeUnit.SECONDS, "Seconds since 1970"),
    (TimeUnit.MILLISECONDS, "Milliseconds since 1970"),
    (TimeUnit.MICROSECONDS, "Microseconds since 1970"),
    (TimeUnit.TEXT, "Text, such as 2024-05-01 10:00"),
)
_TYPES = (
    ("", "As in the file"),
    (ValueType.TEXT, "Text"),
    (ValueType.NUMBER, "Numbers"),
    (ValueType.BOOLEAN, "True or false"),
    (ValueType.JSON, "JSON"),
)
_DECIMALS = (("", "Point, as in 1,234.50"), (DecimalMark.COMMA, "Comma, as in 1.234,50"))

_FILE_KINDS = {
    FileKind.UPLOADS: "Uploads in progress",
    FileKind.DRY_RUNS: "Files of imports that nobody has started",
    FileKind.IMPORTS: "Files of started imports",
    FileKind.IMPORT_MAPPINGS: "Saved mappings",
    FileKind.JOB_RESULTS: "Results of jobs",
}
_FORMATS = {
    "names": [(reader.name, reader.description) for reader in READERS],
    "choices": json.dumps(
        {
            reader.name: {
                "mediaType": reader.media_types[0],
                "hasLocalTimes": reader.has_local_times,
                "endings": [
                    ending + more for ending in reader.endings for more in ("", *COMPRESSED_ENDINGS)
                ],
            }
            for reader in READERS
        }
    ),
    "guides": {reader.name: reader.guide for reader in READERS},
    "accept": ",".join(
        (*(ending for reader in READERS for ending in reader.endings), *COMPRESSED_ENDINGS)
    ),
}
"""Formats that the form offers, each with its media type and the files that it accepts."""


@page("/imports")
def list_imports(view: View, imports: ImportService, disk: DiskService) -> Response[bytes]:
    query = view.query(RecordsQuery, view.websites)
    listing = imports.page(view.workspace_id, query)
    return view.render(
        "imports/list.html",
        parts=("list",),
        query=query,
        imports=listing,
        polls=any(job.is_open or job.state is ImportState.CHECKING for job in listing.data),
        shares={job.id: share_read(job) for job in listing.data},
        disk_use=disk.use(view.workspace_id),
        kinds=_FILE_KINDS,
        max_bytes=view.settings.max_import_bytes,
        formats=_FORMATS,
    )


@page("/imports/{import_id:str}")
def read_import(
    view: View, import_id: str, imports: ImportService, dry_runs: DryRunService
) -> Response[bytes]:
    reader = view.reader.caller
    job = imports.find(reader, import_id)
    return view.render(
        "imports/import.html",
        warnings=warning_records(job.warning_counts),
        parts=("import",),
        job=job,
        share=share_read(job),
        rejects=imports.rejects(reader, import_id, view.query(PageQuery).pagination),
        summary=dry_runs.find_summary(job),
        can_make_funnel=not job.is_staged,
        equal_times_note=equal_times_note,
        uses=_USES,
        units=_UNITS,
        types=_TYPES,
        decimals=_DECIMALS,
        formats={reader.name: reader.description for reader in READERS},
    )


@slow_page("/imports/{import_id:str}/undo")
def confirm_undo(
    view: View, import_id: str, imports: ImportService, import_undos: ImportUndoService
) -> Response[bytes]:
    """Show what the undo of an import would remove."""
    reader = view.reader.caller
    job = imports.find(reader, import_id)
    counts = import_undos.preview(reader, import_id)
    return view.render("imports/undo.html", job=job, **counts._asdict())


@page("/mappings")
def list_mappings(view: View, import_mappings: ImportMappingService) -> Response[bytes]:
    query = view.query(SearchQuery)
    return view.render(
        "imports/mappings.html",
        parts=("list",),
        mappings=import_mappings.page(view.workspace_id, query.pagination, query.search),
        search=query.search,
        uses=dict(_USES),
    )


@page("/exports")
def list_exports(
    view: View, workspace_exports: ExportService, deletions: DeletionService
) -> Response[bytes]:
    outdated = deletions.outdated_exports(view.workspace_id)
    return view.render(
        "imports/exports.html",
        parts=("list",),
        exports=workspace_exports.page(view.workspace_id, view.query(PageQuery).pagination),
        outdated={export.destination_id for export in outdated},
    )


@page("/deletions")
def list_deletions(view: View, deletions: DeletionService) -> Response[bytes]:
    query = view.query(RecordsQuery, view.websites)
    listing = deletions.page(view.workspace_id, query)
    return view.render(
        "imports/deletions.html",
        parts=("list",),
        deletions=listing,
        polls=any(deletion.state is not DeletionState.DONE for deletion in listing.data),
        exports=deletions.remaining_exports(listing.data),
        shares={deletion.id: share_deleted(deletion) for deletion in listing.data},
    )


@slow_page("/deletions/new")
def new_deletion(view: View, visitors: VisitorService) -> Response[bytes]:
    """Show a form for the target. If the address contains a target, show a preview to confirm
    instead.
    """
    query = view.query(NewDeletionQuery, view.websites)
    website = view.website(query.website_id)
    is_span = query.from_ is not None and query.to is not None
    if website is None or not (query.visitor_id or query.user_id or is_span):
        return view.render("imports/deletion_new.html", query=query)
    return view.render(
        "imports/deletion_confirm.html",
        query=query,
        website=website,
        is_span=is_span and not query.visitor_id and not query.user_id,
        visitor=_visitor_of(visitors, view.workspace_id, query),
        sharing=[site for site in view.websites if site.scope_id == website.scope_id],
    )


def _visitor_of(
    visitors: VisitorService, workspace_id: WorkspaceId, query: NewDeletionQuery
) -> VisitorDetailRecord | None:
    """Find the visitor to delete; None if the ID does not belong to a visitor."""
    visitor_id = query.visitor_id
    if visitor_id is None and query.user_id is not None:
        matches = visitors.visitors(
            workspace_id, VisitorsQuery(websiteId=query.website_id, search=query.user_id)
        ).data
        visitor_id = next((row.visitor_id for row in matches if row.user_id == query.user_id), None)
    if visitor_id is None:
        return None
    try:
        return visitors.visitor(workspace_id, visitor_id, WebsiteQuery(websiteId=query.website_id))
    except NotFound:
        return None


def share_read(job: ImportJob) -> float:
    """Return the progress of an import, from 0 to 1."""
    if job.state is ImportState.DONE:
        return 1.0
    return job.bytes_read / job.bytes_total if job.bytes_total else 0.0


def share_deleted(deletion: Deletion) -> float:
    """Return the progress of a deletion, from 0 to 1."""
    steps = STEPS[deletion.target]
    return 1.0 if deletion.step is None else steps.index(deletion.step) / len(steps)


ROUTES = (
    list_imports,
    read_import,
    confirm_undo,
    list_mappings,
    list_exports,
    list_deletions,
    new_deletion,
)
