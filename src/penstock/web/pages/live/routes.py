"""Shows accepted and rejected events as they arrive.

The page polls its part `stream` with the last response's cursor, to get only new rows
(static/live.js).
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from litestar import Response

from penstock.activity.live.schema import RecentQuery
from penstock.activity.live.service import LiveService
from penstock.activity.schema import StoredEventRecord
from penstock.base.ids import WebsiteId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.events.quarantine.schema import QuarantineRecord
from penstock.events.quarantine.service import QuarantineService
from penstock.funnels.saved.service import FunnelService
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.live.schema import RejectedQuery
from penstock.web.view import View

_LARGEST_PAGE = Page(1, MAX_PAGE_SIZE)


class Attempt(NamedTuple):
    """An event's value for a saved funnel's attempt property."""

    property: str
    value: str


@slow_page("/live")
def live_events(view: View, live: LiveService, funnels: FunnelService) -> Response[bytes]:
    query = view.query(RecentQuery, view.websites)
    recent = live.recent_events(view.workspace_id, query)
    attempt_properties = {
        key
        for funnel in funnels.page(view.workspace_id, _LARGEST_PAGE).data
        for key in funnel.attempt_keys
    }
    return view.render(
        "live/events.html",
        parts=("stream",),
        query=query,
        recent=recent,
        attempts=attempts_of(recent.data, attempt_properties),
        people=live.people(view.workspace_id, recent.data),
    )


@page("/refused")
def rejected(view: View, quarantine: QuarantineService) -> Response[bytes]:
    query = view.query(RejectedQuery, view.websites)
    website_id = WebsiteId(query.website_id) if query.website_id else None
    entries = quarantine.page(view.workspace_id, website_id, _LARGEST_PAGE).data
    records = map(QuarantineRecord.from_entry, entries)
    return view.render(
        "live/rejected.html",
        parts=("stream",),
        query=query,
        rejections=[record for record in records if record.number > query.after],
        cursor=entries[0].number if entries else 0,
    )


def attempts_of(
    events: Iterable[StoredEventRecord], properties: Collection[str]
) -> dict[str, list[Attempt]]:
    """Return the attempts of each event, by event ID. properties: attempt properties of funnels."""
    return {
        event.event_id: [
            Attempt(name, _text(event.properties[name]))
            for name in sorted(properties)
            if name in event.properties
        ]
        for event in events
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


ROUTES = (live_events, rejected)
