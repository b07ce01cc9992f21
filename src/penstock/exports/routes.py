"""HTTP routes for exports."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.members.schema import MemberRecord
from penstock.accounts.members.service import MemberService
from penstock.accounts.model import Caller
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
from penstock.http.answers import answer, answer_list, file_download, no_content
from penstock.http.bodies import parse_model, read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord

_FILES = tuple(MEDIA_TYPES.values())


@post(
    "/api/exports",
    opt=described("Begin an export", body=ExportIn, answers=ExportRecord, tag="exports"),
)
async def begin_export(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
) -> Response[bytes]:
    """Records that the caller is going to copy the workspace's data to a destination.

    The deletion of a person then names the destination. `penstock export` does this itself.
    """
    require_json(request)
    new = parse_model(await read_bytes(request), ExportIn)
    export = await to_thread.run_sync(workspace_exports.begin, caller, new)
    return answer(ExportRecord.from_export(export), status=201)


@post(
    "/api/exports/{export_id:str}/finish",
    status_code=200,
    opt=described("Finish an export", answers=ExportRecord, tag="exports"),
)
async def finish_export(
    export_id: FromPath[str],
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
) -> Response[bytes]:
    """Records that all files of the export are complete and that no older files remain.

    Deletions that were done before it began no longer name its destination.
    """
    export = await to_thread.run_sync(workspace_exports.finish, caller.workspace_id, export_id)
    return answer(ExportRecord.from_export(export))


@delete(
    "/api/exports/{export_id:str}",
    opt=described("Forget the destination of an export", tag="exports"),
)
async def forget_export(
    export_id: FromPath[str],
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
) -> Response[None]:
    """Removes the export and all others to its destination. Delete the files first.

    Deletions of people no longer name the destination.
    """
    await to_thread.run_sync(workspace_exports.forget, caller, export_id)
    return no_content()


@get(
    "/api/exports",
    opt=described(
        "Exports",
        answers=ExportRecord,
        query=PageQuery,
        listed=True,
        scopes=(KeyScope.MANAGE,),
        tag="exports",
    ),
)
async def list_exports(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
) -> Response[bytes]:
    """Lists the exports that clients began, newest first."""
    page = read_query(request, PageQuery).pagination
    listing = await to_thread.run_sync(workspace_exports.page, caller.workspace_id, page)
    return await answer_list(listing, ExportRecord.from_export)


@get(
    "/api/exports/days",
    opt=described(
        "Days to export",
        answers=DaysRecord,
        query=DaysQuery,
        job=JobRecord,
        scopes=(KeyScope.MANAGE,),
        tag="exports",
    ),
)
async def list_export_days(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Lists the days on which a website has events or clicks, oldest first."""
    return await respond(partial(workspace_exports.days, caller, read_query(request, DaysQuery)))


@get(
    "/api/exports/day",
    opt=described(
        "Rows of a day",
        returns=_FILES,
        query=DayQuery,
        job=JobRecord,
        scopes=(KeyScope.MANAGE,),
        tag="exports",
    ),
)
async def export_day(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
    audit_log: NamedDependency[AuditLog],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns all events or clicks of a website on one day (UTC), oldest first."""
    query = read_query(request, DayQuery)

    def export() -> Response[bytes]:
        file = workspace_exports.day(caller, query)
        audit_log.record(
            caller, Action.EXPORTED, f"{query.table} {query.website_id} {query.day.isoformat()}"
        )
        name = f"{query.table}-{query.day.isoformat()}.{query.format}"
        return file_download(file, name, MEDIA_TYPES[query.format])

    return await respond(export)


@get(
    "/api/exports/identities",
    opt=described(
        "Users and merged visitors",
        returns=_FILES,
        query=IdentitiesQuery,
        job=JobRecord,
        scopes=(KeyScope.MANAGE,),
        tag="exports",
    ),
)
async def export_identities(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    workspace_exports: NamedDependency[ExportService],
    audit_log: NamedDependency[AuditLog],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns each visitor that belongs to a user or was merged, with the canonical visitor.

    Includes visitors of websites that share visitors with this website.
    """
    query = read_query(request, IdentitiesQuery)

    def export() -> Response[bytes]:
        file = workspace_exports.identities(caller, query)
        audit_log.record(caller, Action.EXPORTED, f"identities {query.website_id}")
        return file_download(file, f"identities.{query.format}", MEDIA_TYPES[query.format])

    return await respond(export)


@get(
    "/api/exports/members",
    opt=described(
        "Members to export",
        answers=MemberRecord,
        query=PageQuery,
        listed=True,
        scopes=(KeyScope.MANAGE,),
        tag="exports",
    ),
)
async def list_export_members(
    request: AnyRequest, caller: NamedDependency[Caller], members: NamedDependency[MemberService]
) -> Response[bytes]:
    """Lists members, like the list in the settings, but also for an API key."""
    page = read_query(request, PageQuery).pagination
    listing = await to_thread.run_sync(members.members, caller.workspace_id, page)
    return await answer_list(listing, MemberRecord.from_member)


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
