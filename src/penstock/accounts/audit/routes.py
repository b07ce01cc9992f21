"""HTTP routes for the audit log."""

from penstock.accounts.audit.schema import AuditRecord
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope


@route("GET", "/api/settings/audit-log", "Audit log", scopes=(KeyScope.MANAGE,), tag="accounts")
def read_audit_log(caller: Caller, audit_log: AuditLog, query: PageQuery) -> Listing[AuditRecord]:
    """Lists entries, newest first. Entries are kept for a year.

    Requires an owner's session, or an API key with the scope `manage`.
    """
    return audit_log.entries(caller, query.pagination)


ROUTES = (read_audit_log,)
