"""HTTP routes for the quarantine and for event counts."""

from functools import partial

from anyio import to_thread
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
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
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope


@get(
    "/api/events/refused",
    opt=described(
        "Rejected and quarantined events",
        answers=QuarantineRecord,
        query=QuarantineQuery,
        listed=True,
        tag="activity",
    ),
)
async def list_quarantine(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    """List quarantine entries with an excerpt of each, newest first."""
    query, website_id = read_query(request, QuarantineQuery), None
    if query.website_id is not None:
        find_website = partial(website_service.owned_website, caller.workspace_id, query.website_id)
        website_id = (await to_thread.run_sync(find_website)).id
    page = partial(
        quarantine.page,
        caller.workspace_id,
        website_id,
        query.pagination,
        with_unknown=caller.website_id is None,
    )
    return await answer_list(await to_thread.run_sync(page), QuarantineRecord.from_entry)


@get(
    "/api/events/refused/export",
    opt=described(
        "Export the quarantine",
        answers=QuarantinedContent,
        returns=("application/x-ndjson",),
        query=ExportQuery,
        scopes=(KeyScope.MANAGE,),
        tag="activity",
    ),
)
async def export_quarantine(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
    quarantine: NamedDependency[QuarantineService],
    audit_log: NamedDependency[AuditLog],
) -> Response[bytes]:
    """Export a website's entries with their content, oldest first, as NDJSON."""
    query = read_query(request, ExportQuery)

    def export() -> bytes:
        website = website_service.owned_website(caller.workspace_id, query.website_id)
        audit_log.record(caller, Action.EXPORTED, f"quarantine {website.id}")
        entries = quarantine.entries(caller.workspace_id, website.id)
        lines = [QuarantinedContent.from_entry(entry).model_dump_json() for entry in entries]
        return "".join(f"{line}\n" for line in lines).encode()

    return Response(
        await to_thread.run_sync(export),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": 'attachment; filename="quarantine.ndjson"'},
    )


@post(
    "/api/events/refused/replay",
    status_code=200,
    opt=described(
        "Replay the quarantine of a website", body=ReplayAll, answers=ReplayRecord, tag="activity"
    ),
)
async def replay_all(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    website_service: NamedDependency[WebsiteService],
    replays: NamedDependency[Replayer],
) -> Response[bytes]:
    """Store every entry that is valid now, with its original time of receipt.

    Stored entries leave the quarantine.
    """
    form = await read_json(request, ReplayAll)
    find_website = partial(website_service.owned_website, caller.workspace_id, form.website_id)
    website = await to_thread.run_sync(find_website)
    result = await replays.replay_all(caller.workspace_id, website.id)
    return answer(ReplayRecord.from_result(result))


@post(
    "/api/events/refused/{number:str}/replay",
    status_code=204,
    opt=described("Replay one entry of the quarantine", tag="activity"),
)
async def replay_one(
    number: FromPath[str],
    caller: NamedDependency[Caller],
    replays: NamedDependency[Replayer],
) -> Response[None]:
    """Store the entry and remove it from the quarantine. Returns 422 with all faults if the entry
    is still invalid.
    """
    await replays.replay(caller.workspace_id, number)
    return no_content()


@get(
    "/api/events/counts",
    opt=described("Counts of events", answers=AllEventCountsRecord, tag="activity"),
)
async def read_counts(
    caller: NamedDependency[Caller], quarantine: NamedDependency[QuarantineService]
) -> Response[bytes]:
    """Returns the numbers of stored, rejected and waiting events of each website."""
    counts = await to_thread.run_sync(quarantine.counts, caller.workspace_id)
    return answer(AllEventCountsRecord.from_counts(counts))


ROUTES = (list_quarantine, export_quarantine, replay_all, replay_one, read_counts)
