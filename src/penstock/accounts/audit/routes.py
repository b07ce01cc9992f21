"""HTTP routes for the audit log."""

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.audit.schema import AuditRecord
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.http.answers import answer_list
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope


@get(
    "/api/settings/audit-log",
    opt=described(
        "Audit log",
        answers=AuditRecord,
        query=PageQuery,
        listed=True,
        scopes=(KeyScope.MANAGE,),
        tag="accounts",
    ),
)
async def read_audit_log(
    request: AnyRequest, caller: NamedDependency[Caller], audit_log: NamedDependency[AuditLog]
) -> Response[bytes]:
    """Lists entries, newest first. Entries are kept for a year.

    Requires an owner's session, or an API key with the scope `manage`.
    """
    page = read_query(request, PageQuery).pagination
    return await answer_list(
        await to_thread.run_sync(audit_log.entries, caller, page), AuditRecord.from_entry
    )


ROUTES = (read_audit_log,)
