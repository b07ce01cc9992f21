"""HTTP route for the export of a person's data."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.activity.personal_data.schema import PersonalDataLine, PersonQuery
from penstock.activity.personal_data.service import PersonalDataService
from penstock.http.answers import file_download
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


@get(
    "/api/personal-data",
    opt=described(
        "Everything stored about a person",
        answers=PersonalDataLine,
        returns=("application/x-ndjson",),
        query=PersonQuery,
        job=JobRecord,
        scopes=(KeyScope.MANAGE,),
        tag="deletions",
    ),
)
async def export_personal_data(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    personal_data: NamedDependency[PersonalDataService],
    audit_log: NamedDependency[AuditLog],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Returns a person's data as NDJSON: identity, links that brought the visitor, app opens, and
    all events.

    `userId` also finds events that contain the user ID under another visitor.
    """
    query = read_query(request, PersonQuery)

    def export() -> Response[bytes]:
        file = personal_data.export(caller, query)
        audit_log.record(caller, Action.EXPORTED, f"personal-data {query.website_id}")
        return file_download(file, "personal-data.ndjson", "application/x-ndjson")

    return await respond(export)


ROUTES = (export_personal_data,)
