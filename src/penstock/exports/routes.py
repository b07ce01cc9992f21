"""HTTP routes for exports."""

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.members.schema import MemberRecord
from penstock.accounts.members.service import MemberService
from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.base.row_files import MEDIA_TYPES
from penstock.exports.schema import (
    DayQuery,
    DaysQuery,
    DaysRecord,
    ExportIn,
    ExportRecord,
    IdentitiesQuery,
)
from penstock.exports.service import ExportService
from penstock.http.answers import file_download
from penstock.http.bodies import DEFAULT_BODY_BYTES
from penstock.http.handlers import route
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import slow_route

_ALL = "/api/exports"
_ONE = "/api/exports/{export_id:str}"
_FILES = tuple(MEDIA_TYPES.values())


@route("POST", _ALL, "Begin an export", max_bytes=DEFAULT_BODY_BYTES, tag="exports")
def begin_export(
    caller: Caller, workspace_exports: ExportService, export: ExportIn
) -> ExportRecord:
    """Records that the caller is going to copy the workspace's data to a destination.

    The deletion of a person then names the destination. `penstock export` does this itself.
    """
    return ExportRecord.from_export(workspace_exports.begin(caller, export))


@route("POST", f"{_ONE}/finish", "Finish an export", status=200, tag="exports")
def finish_export(caller: Caller, workspace_exports: ExportService, export_id: str) -> ExportRecord:
    """Records that all files of the export are complete and that no older files remain.

    Deletions that were done before it began no longer name its destination.
    """
    return ExportRecord.from_export(workspace_exports.finish(caller.workspace_id, export_id))


@route("DELETE", _ONE, "Forget the destination of an export", tag="exports")
def forget_export(caller: Caller, workspace_exports: ExportService, export_id: str) -> None:
    """Removes the export and all others to its destination. Delete the files first.

    Deletions of people no longer name the destination.
    """
    workspace_exports.forget(caller, export_id)


@route("GET", _ALL, "Exports", scopes=(KeyScope.MANAGE,), tag="exports")
def list_exports(
    caller: Caller, workspace_exports: ExportService, query: PageQuery
) -> Listing[ExportRecord]:
    """Lists the exports that clients began, newest first."""
    exports = workspace_exports.page(caller.workspace_id, query.pagination)
    return exports.map(ExportRecord.from_export)


@slow_route("GET", f"{_ALL}/days", "Days to export", scopes=(KeyScope.MANAGE,), tag="exports")
def list_export_days(
    caller: Caller, workspace_exports: ExportService, query: DaysQuery
) -> DaysRecord:
    """Lists the days on which a website has events or clicks, oldest first."""
    return workspace_exports.days(caller, query)


@slow_route(
    "GET",
    f"{_ALL}/day",
    "Rows of a day",
    returns=_FILES,
    scopes=(KeyScope.MANAGE,),
    tag="exports",
)
def export_day(
    caller: Caller, workspace_exports: ExportService, audit_log: AuditLog, query: DayQuery
) -> Response[bytes]:
    """Returns all events or clicks of a website on one day (UTC), oldest first."""
    file, day = workspace_exports.day(caller, query), query.day.isoformat()
    audit_log.record(caller, Action.EXPORTED, f"{query.table} {query.website_id} {day}")
    return file_download(file, f"{query.table}-{day}.{query.format}", MEDIA_TYPES[query.format])


@slow_route(
    "GET",
    f"{_ALL}/identities",
    "Users and merged visitors",
    returns=_FILES,
    scopes=(KeyScope.MANAGE,),
    tag="exports",
)
def export_identities(
    caller: Caller, workspace_exports: ExportService, audit_log: AuditLog, query: IdentitiesQuery
) -> Response[bytes]:
    """Returns each visitor that belongs to a user or was merged, with the canonical visitor.

    Includes visitors of websites that share visitors with this website.
    """
    file = workspace_exports.identities(caller, query)
    audit_log.record(caller, Action.EXPORTED, f"identities {query.website_id}")
    return file_download(file, f"identities.{query.format}", MEDIA_TYPES[query.format])


@route("GET", f"{_ALL}/members", "Members to export", scopes=(KeyScope.MANAGE,), tag="exports")
def list_export_members(
    caller: Caller, members: MemberService, query: PageQuery
) -> Listing[MemberRecord]:
    """Lists members, like the list in the settings, but also for an API key."""
    return members.members(caller.workspace_id, query.pagination)


ROUTES = (
    begin_export,
    finish_export,
    forget_export,
    list_exports,
    list_export_days,
    export_day,
    export_identities,
    list_export_members,
)
