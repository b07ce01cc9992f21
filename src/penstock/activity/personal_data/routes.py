"""HTTP of the export of a person's data."""

import os
from collections.abc import Iterator
from typing import IO, cast

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.response import Stream

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.activity.personal_data.schema import PersonalDataLine, PersonQuery
from penstock.activity.personal_data.service import PersonalDataService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord

_CHUNK_BYTES = 256 * 1024


@get(
    "/api/personal-data",
    opt=described(
        "Everything stored about a person",
        answers=PersonalDataLine,
        returns=("application/x-ndjson",),
        query=PersonQuery,
        later=JobRecord,
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
    """A file of NDJSON: identity, links that brought the visitor, app opens, and all events.

    `userId` also finds events that name the user under another visitor.
    """
    query = read_query(request, PersonQuery)

    def export() -> Response[bytes]:
        file = personal_data.export(caller, query)
        audit_log.record(caller, Action.EXPORTED, f"personal-data {query.website_id}")
        headers = {"Content-Disposition": 'attachment; filename="personal-data.ndjson"'}
        return cast(
            "Response[bytes]",
            Stream(lambda: _chunks(file), media_type="application/x-ndjson", headers=headers),
        )

    return await respond(export)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The file from its start: the result of a job may be fetched several times."""
    offset = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, offset):
        yield chunk
        offset += len(chunk)


ROUTES = (export_personal_data,)
