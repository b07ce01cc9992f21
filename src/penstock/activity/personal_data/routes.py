"""HTTP route for the export of a person's data."""

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.activity.personal_data.schema import PersonalDataLine, PersonQuery
from penstock.activity.personal_data.service import PersonalDataService
from penstock.http.answers import file_download
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import slow_route

_NDJSON = "application/x-ndjson"


@slow_route(
    "GET",
    "/api/personal-data",
    "Everything stored about a person",
    answers=PersonalDataLine,
    returns=(_NDJSON,),
    scopes=(KeyScope.MANAGE,),
    tag="deletions",
)
def export_personal_data(
    caller: Caller, personal_data: PersonalDataService, audit_log: AuditLog, query: PersonQuery
) -> Response[bytes]:
    """Returns a person's data as NDJSON: identity, links that brought the visitor, app opens, and
    all events.

    `userId` also finds events that contain the user ID under another visitor.
    """
    file = personal_data.export(caller, query)
    audit_log.record(caller, Action.EXPORTED, f"personal-data {query.website_id}")
    return file_download(file, "personal-data.ndjson", _NDJSON)


ROUTES = (export_personal_data,)
