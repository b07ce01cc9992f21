"""Use cases for live events."""

from collections.abc import Callable, Collection, Sequence

from msgspec import json

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.activity.live.cursor import Cursor
from penstock.activity.live.schema import RecentQuery, RecentRecord
from penstock.activity.schema import StoredEventRecord
from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.core import Core
from penstock.http.bodies import bad_parameter
from penstock.identity.profiles import service as profiles
from penstock.identity.profiles.service import PersonNames
from penstock.metadb.person import PersonName
from penstock.settings import DAY_S
from penstock.warehouse.client import WaitUntilShipped
from penstock.warehouse.queries import load

_DAY_MS = DAY_S * 1000
_INITIAL_SPANS_MS = (3_600_000, 30 * _DAY_MS)
"""Time spans for a request without a cursor. They are read in turn until there are enough events.
"""
_FRESH_WAIT_S = 1.0

ReadLostEvents = Callable[[Collection[WebsiteId], int | None, int | None], int]
"""Returns the number of events that the websites' clients reported as dropped in a period. A start
or end of None means no limit.
"""


class LiveService:
    """Reads a workspace's recent events. Methods block: call them from a worker thread."""

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        people: PersonNames,
        *,
        wait_until_shipped: WaitUntilShipped,
        read_lost_events: ReadLostEvents,
    ) -> None:
        self._database, self._warehouse, self._clock = core.database, core.warehouse, core.clock
        self._websites, self._people = websites, people
        self._wait_until_shipped = wait_until_shipped
        self._read_lost_events = read_lost_events

    def recent_events(self, workspace_id: WorkspaceId, query: RecentQuery) -> RecentRecord:
        """Return the latest events or the events since a cursor: at most `limit`, newest first.

        Raises `Malformed` for an invalid cursor, `Unauthorized` for another workspace's
        `websiteId`, and `Unavailable` if the warehouse does not respond.
        """
        cursor = _cursor(query)
        websites = self._websites.select_websites(workspace_id, query.website_id)
        parameters = self._parameters(websites, query)
        self._wait_until_shipped(_FRESH_WAIT_S)
        now_ms = self._clock()
        # Read one extra event, to see whether there are more.
        limit = query.limit + len(cursor.marks) + 1
        starts = (
            (cursor.after_ms,)
            if query.after is not None
            else (*(now_ms - span_ms for span_ms in _INITIAL_SPANS_MS), 0)
        )
        rows = []
        for after_ms in starts:
            rows = self._warehouse.fetch_dicts(
                load("penstock.activity.live", "recent_events"),
                {**parameters, "after": after_ms, "limit": limit},
            )
            if len(rows) == limit:
                break
        new = [row for row in rows if not cursor.has_returned(row["event_id"])]
        next_cursor = cursor.advance(
            [(row["event_id"], row["received_ms"]) for row in rows],
            now_ms,
            all_read=len(rows) < limit,
        )
        return RecentRecord(
            data=[StoredEventRecord.from_row(row) for row in new[: query.limit]],
            cursor=str(next_cursor),
            skipped=query.after is not None and len(new) > query.limit,
            lost_on_devices=self._read_lost_events(
                [website.id for website in websites], now_ms - _DAY_MS, now_ms
            ),
        )

    def people(
        self, workspace_id: WorkspaceId, events: Sequence[StoredEventRecord]
    ) -> dict[str, PersonName]:
        """Return the people behind events, by the event's ID, for members of the workspace."""
        scopes = {site.id: site.scope_id for site in self._websites.websites(workspace_id)}
        visitors = {
            event.event_id: (scope_id, event.visitor_id)
            for event in events
            if (scope_id := scopes.get(WebsiteId(event.website_id))) is not None
        }
        people = self._people.read(workspace_id, set(visitors.values()))
        return {
            event_id: person
            for event_id, visitor in visitors.items()
            if (person := people.get(visitor)) is not None
        }

    def _parameters(self, websites: Sequence[Website], query: RecentQuery) -> dict[str, object]:
        keys: list[int] = []
        if query.visitor_id is not None:
            with self._database.read() as db:
                matches = profiles.find_by_visitor_id(
                    db, sorted({website.scope_id for website in websites}), query.visitor_id
                )
            for profile in matches:
                rows = self._warehouse.fetch_rows(
                    load("penstock.identity", "visitor_keys"),
                    {"scope": profile.scope_id, "visitors": profile.ids},
                )
                keys += [key for (key,) in rows]
        return {
            "websites": [website.id for website in websites],
            "kind": query.kind or "",
            "source": query.source or "",
            "name": query.name or "",
            "by_visitor": query.visitor_id is not None,
            "visitors": keys,
            "property": query.property or "",
            "values": []
            if query.value is None
            else [json.encode(query.value).decode(), query.value],
        }


def _cursor(query: RecentQuery) -> Cursor:
    if (query.property is None) != (query.value is None):
        missing = "value" if query.value is None else "property"
        raise bad_parameter(Fault(missing, "required", "Send property and value together."))
    try:
        return Cursor() if query.after is None else Cursor.parse(query.after)
    except ValueError:
        raise bad_parameter(
            Fault("after", "does_not_fit", "Must be the unchanged cursor of an earlier response.")
        ) from None
