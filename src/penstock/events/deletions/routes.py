"""HTTP routes for deletions."""

from collections.abc import Sequence

from anyio import to_thread
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.events.deletions.model import Deletion
from penstock.events.deletions.schema import DeletionIn, DeletionRecord
from penstock.events.deletions.service import DeletionService
from penstock.http.answers import answer, answer_list
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import RecordsQuery


@post(
    "/api/deletions",
    opt=described(
        "Delete a visitor, a user or a span",
        body=DeletionIn,
        answers=DeletionRecord,
        tag="deletions",
    ),
)
async def create_deletion(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    deletions: NamedDependency[DeletionService],
) -> Response[bytes]:
    """Start a job that deletes everything received so far.

    `visitorId` and `userId` select the visitor and all visitors merged with it, on every website
    that shares its identity scope. If the ID is sent again later, it creates a new visitor. `from`
    (inclusive) and `to` (exclusive) select all events of this website in a period. Requests are
    safe to repeat.
    """
    require_json(request)
    body = await read_bytes(request)

    def start() -> DeletionRecord:
        [record] = _records(deletions, [deletions.request(caller, body)])
        return record

    return answer(await to_thread.run_sync(start), status=201)


@get(
    "/api/deletions",
    opt=described(
        "Deletions", query=RecordsQuery, answers=DeletionRecord, listed=True, tag="deletions"
    ),
)
async def list_deletions(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    deletions: NamedDependency[DeletionService],
) -> Response[bytes]:
    """List deletions, newest first."""
    query = read_query(request, RecordsQuery)

    def read() -> Listing[DeletionRecord]:
        page = deletions.page(caller.workspace_id, query)
        return Listing(_records(deletions, page.data), page.page, page.total)

    return await answer_list(await to_thread.run_sync(read))


@get(
    "/api/deletions/{deletion_id:str}",
    opt=described("A deletion", answers=DeletionRecord, tag="deletions"),
)
async def read_deletion(
    deletion_id: FromPath[str],
    caller: NamedDependency[Caller],
    deletions: NamedDependency[DeletionService],
) -> Response[bytes]:
    def read() -> DeletionRecord:
        [record] = _records(deletions, [deletions.find(caller.workspace_id, deletion_id)])
        return record

    return answer(await to_thread.run_sync(read))


def _records(service: DeletionService, deletions: Sequence[Deletion]) -> list[DeletionRecord]:
    exports = service.remaining_exports(deletions)
    return [DeletionRecord.from_deletion(each, exports[each.id]) for each in deletions]


ROUTES = (create_deletion, list_deletions, read_deletion)
