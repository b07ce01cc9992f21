"""What comes in, and what was refused, as it happens.

A page asks for its part `stream` again with the cursor that the part carries, and is given only what is new (static/live.js).
"""

from collections.abc import Collection, Iterable
from typing import Annotated, Any, NamedTuple

from litestar import Response, get
from litestar.di import NamedDependency
from pydantic import Field

from penstock.accounts.service import AccountService
from penstock.activity.live import LiveService
from penstock.activity.schema import RecentQuery, StoredEventRecord
from penstock.base.ids import WebsiteId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.events.service import EventService
from penstock.funnels.saved.service import FunnelService
from penstock.http.schema import Query
from penstock.jobs.answered import Answered
from penstock.web.nav import Entry
from penstock.web.view import View, names_of, without_foreign

LIVE_TABS = (Entry("Arriving", "/live"), Entry("Refused", "/refused"))
_MOST = Page(1, MAX_PAGE_SIZE)


class RefusedQuery(Query):
    """after: the number of the refusal seen last."""

    website_id: str | None = None
    after: Annotated[int, Field(ge=0)] = 0


class Attempt(NamedTuple):
    """The attempt that an event belongs to, by a property that a saved funnel tells attempts by."""

    property: str
    value: str


@get("/live")
async def live_events(
    view: NamedDependency[View],
    accounts: NamedDependency[AccountService],
    live: NamedDependency[LiveService],
    funnels: NamedDependency[FunnelService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        websites = accounts.websites(view.workspace_id)
        query = without_foreign(view.query(RecentQuery), websites)
        found = live.recent(view.workspace_id, query)
        told_by = {one.attempt_property for one in funnels.page(view.workspace_id, _MOST).data if one.attempt_property}
        return view.render(
            "live/events.html",
            parts=("stream",),
            query=query,
            found=found,
            attempts=attempts_of(found.data, told_by),
            websites=websites,
            names=names_of(websites),
            tabs=LIVE_TABS,
        )

    return await answered(made)


@get("/refused", sync_to_thread=True)
def refused(
    view: NamedDependency[View], accounts: NamedDependency[AccountService], events: NamedDependency[EventService]
) -> Response[bytes]:
    websites = accounts.websites(view.workspace_id)
    query = without_foreign(view.query(RefusedQuery), websites)
    website_id = WebsiteId(query.website_id) if query.website_id else None
    found = events.refusals.page(view.workspace_id, website_id, _MOST).data
    newest = found[0].number if found else 0
    after = query.after if query.after <= newest else 0  # numbers begin anew when the service does
    return view.render(
        "live/refused.html",
        parts=("stream",),
        query=query,
        refusals=[one for one in found if one.number > after],
        cursor=newest,
        websites=websites,
        names=names_of(websites),
        tabs=LIVE_TABS,
    )


def attempts_of(events: Iterable[StoredEventRecord], properties: Collection[str]) -> dict[str, list[Attempt]]:
    """By event ID: what attempts the event belongs to. properties: those that attempts are told by."""
    return {
        event.event_id: [Attempt(name, _text(event.properties[name])) for name in sorted(properties) if name in event.properties]
        for event in events
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


ROUTES = (live_events, refused)
