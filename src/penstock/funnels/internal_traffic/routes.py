"""HTTP routes for internal traffic."""

from anyio import to_thread
from litestar import Response, get, put
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.base.fair_queue import FairQueue
from penstock.funnels.internal_traffic.schema import InternalTrafficIn, InternalTrafficRecord
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.http.answers import answer
from penstock.http.bodies import compute_on, read_bytes, require_json
from penstock.http.openapi import described
from penstock.http.read_only import split_read_only
from penstock.http.requests import AnyRequest


@get(
    "/api/settings/internal-traffic",
    opt=described("Internal traffic", answers=InternalTrafficRecord, tag="accounts"),
)
async def read_internal_traffic(
    caller: NamedDependency[Caller], internal_traffic: NamedDependency[InternalTrafficService]
) -> Response[bytes]:
    """Return the filters whose entries reports leave out."""
    return answer(await to_thread.run_sync(internal_traffic.get, caller.workspace_id))


@put(
    "/api/settings/internal-traffic",
    opt=described(
        "Replace the filters of internal traffic",
        body=InternalTrafficIn,
        answers=InternalTrafficRecord,
        takes_read_only=True,
        tag="accounts",
    ),
)
async def replace_internal_traffic(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    internal_traffic: NamedDependency[InternalTrafficService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Reports leave out units whose entry event passes any of these filters.

    Every report of the workspace applies them immediately; with `internal=true`, it counts these
    units again. You can send the read-only fields `revision` and `updatedAt` back with their stored
    values.
    """
    require_json(request)
    sent = await read_bytes(request)
    body, read_only = await compute_on(
        sent, split_read_only, sent, InternalTrafficIn, InternalTrafficRecord
    )
    filters = await definition_checks.run(caller.workspace_id, internal_traffic.read, body)
    return answer(await to_thread.run_sync(internal_traffic.replace, caller, filters, read_only))


ROUTES = (read_internal_traffic, replace_internal_traffic)
