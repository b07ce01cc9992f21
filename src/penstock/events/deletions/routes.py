"""HTTP routes for deletions."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.events.deletions.model import Deletion
from penstock.events.deletions.schema import DeletionIn, DeletionRecord
from penstock.events.deletions.service import DeletionService
from penstock.http.handlers import route
from penstock.http.schema import RecordsQuery

_ALL = "/api/deletions"


@route("POST", _ALL, "Delete a visitor, a user or a span", body=DeletionIn, tag="deletions")
def create_deletion(caller: Caller, deletions: DeletionService, deletion: bytes) -> DeletionRecord:
    """Start a job that deletes everything received so far.

    `visitorId` and `userId` select the visitor and all visitors merged with it, on every website
    that shares its identity scope. If the ID is sent again later, it creates a new visitor. `from`
    (inclusive) and `to` (exclusive) select all events of this website in a period. Requests are
    safe to repeat.
    """
    return _record(deletions, deletions.request(caller, deletion))


@route("GET", _ALL, "Deletions", tag="deletions")
def list_deletions(
    caller: Caller, deletions: DeletionService, query: RecordsQuery
) -> Listing[DeletionRecord]:
    """List deletions, newest first."""
    page = deletions.page(caller.workspace_id, query)
    exports = deletions.remaining_exports(page.data)
    return page.map(lambda each: DeletionRecord.from_deletion(each, exports[each.id]))


@route("GET", f"{_ALL}/{{deletion_id:str}}", "A deletion", tag="deletions")
def read_deletion(caller: Caller, deletions: DeletionService, deletion_id: str) -> DeletionRecord:
    return _record(deletions, deletions.find(caller.workspace_id, deletion_id))


def _record(service: DeletionService, deletion: Deletion) -> DeletionRecord:
    exports = service.remaining_exports([deletion])
    return DeletionRecord.from_deletion(deletion, exports[deletion.id])


ROUTES = (create_deletion, list_deletions, read_deletion)
