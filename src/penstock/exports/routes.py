"""HTTP routes for exports."""

from functools import partial

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.members.schema import MemberRecord
from penstock.accounts.members.service import MemberService
from penstock.accounts.model import Caller
from penstock.base.row_files import MEDIA_TYPES
from penstock.exports.schema import DayQuery, DaysQuery, DaysRecord, IdentitiesQuery
from penstock.exports.service import ExportService
from penstock.http.answers import answer_list, file_download
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord

_FILES = tuple(MEDIA_TYPES.values())


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


ROUTES = (list_export_days, export_day, export_identities, list_export_members)
