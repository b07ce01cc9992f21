"""HTTP of rejections."""

from functools import partial

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.events.rejections.schema import RejectionRecord, RejectionsQuery
from penstock.events.service import EventService
from penstock.http.answers import listing
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest


@get(
    "/api/events/refused",
    opt=described(
        "Rejected events",
        answers=RejectionRecord,
        query=RejectionsQuery,
        listed=True,
        tag="activity",
    ),
)
async def list_rejections(
    request: AnyRequest, caller: NamedDependency[Caller], events: NamedDependency[EventService]
) -> Response[bytes]:
    """Newest first: the last 500 of the workspace on this node since its start."""
    query, website_id = read_query(request, RejectionsQuery), None
    if query.website_id is not None:
        owned = partial(events.websites.owned_website, caller.workspace_id, query.website_id)
        website_id = (await to_thread.run_sync(owned)).id
    rejections = events.rejections.page(caller.workspace_id, website_id, query.asked)
    return listing(rejections, RejectionRecord.of)


ROUTES = (list_rejections,)
