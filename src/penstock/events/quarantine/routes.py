"""HTTP routes for the quarantine and for event counts."""

from anyio import to_thread
from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.base.paging import Listing
from penstock.events.quarantine.replays import Replayer
from penstock.events.quarantine.schema import (
    AllEventCountsRecord,
    ExportQuery,
    QuarantinedContent,
    QuarantineQuery,
    QuarantineRecord,
    ReplayAll,
    ReplayRecord,
)
from penstock.events.quarantine.service import QuarantineService
from penstock.http.handlers import route
from penstock.http.scopes import KeyScope

_REFUSED = "/api/events/refused"


@route("GET", _REFUSED, "Rejected and quarantined events", tag="activity")
def list_quarantine(
    caller: Caller,
    website_service: WebsiteService,
    quarantine: QuarantineService,
    query: QuarantineQuery,
) -> Listing[QuarantineRecord]:
    """List quarantine entries with an excerpt of each, newest first."""
    workspace_id, with_unknown = caller.workspace_id, caller.website_id is None
    website_id = website_service.selected_id(workspace_id, query.website_id)
    entries = quarantine.page(workspace_id, website_id, query.pagination, with_unknown=with_unknown)
    return entries.map(QuarantineRecord.from_entry)


@route(
    "GET",
    f"{_REFUSED}/export",
    "Export the quarantine",
    answers=QuarantinedContent,
    returns=("application/x-ndjson",),
    scopes=(KeyScope.MANAGE,),
    tag="activity",
)
def export_quarantine(
    caller: Caller,
    website_service: WebsiteService,
    quarantine: QuarantineService,
    audit_log: AuditLog,
    query: ExportQuery,
) -> Response[bytes]:
    """Export a website's entries with their content, oldest first, as NDJSON."""
    website = website_service.owned_website(caller.workspace_id, query.website_id)
    audit_log.record(caller, Action.EXPORTED, f"quarantine {website.id}")
    entries = quarantine.entries(caller.workspace_id, website.id)
    lines = [QuarantinedContent.from_entry(entry).model_dump_json() for entry in entries]
    return Response(
        "".join(f"{line}\n" for line in lines).encode(),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": 'attachment; filename="quarantine.ndjson"'},
    )


@route(
    "POST", f"{_REFUSED}/replay", "Replay the quarantine of a website", status=200, tag="activity"
)
async def replay_all(
    caller: Caller, website_service: WebsiteService, replays: Replayer, form: ReplayAll
) -> ReplayRecord:
    """Store every entry that is valid now, with its original time of receipt.

    Stored entries leave the quarantine.
    """
    website = await to_thread.run_sync(
        website_service.owned_website, caller.workspace_id, form.website_id
    )
    return await replays.replay_all(caller.workspace_id, website.id)


@route(
    "POST",
    f"{_REFUSED}/{{number:str}}/replay",
    "Replay one entry of the quarantine",
    tag="activity",
)
async def replay_one(caller: Caller, replays: Replayer, number: str) -> None:
    """Store the entry and remove it from the quarantine. Returns 422 with all faults if the entry
    is still invalid.
    """
    await replays.replay(caller.workspace_id, number)


@route("GET", "/api/events/counts", "Counts of events", tag="activity")
def read_counts(caller: Caller, quarantine: QuarantineService) -> AllEventCountsRecord:
    """Returns the numbers of stored, rejected and waiting events of each website."""
    return quarantine.counts(caller.workspace_id)


ROUTES = (list_quarantine, export_quarantine, replay_all, replay_one, read_counts)
