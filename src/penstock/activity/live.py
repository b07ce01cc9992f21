"""Use case of watching events come in."""

from msgspec import json

from penstock.accounts.service import AccountService
from penstock.activity.cursor import Cursor
from penstock.activity.schema import RecentQuery, RecentRecord, StoredEventRecord
from penstock.base.clock import Clock
from penstock.base.errors import Fault
from penstock.base.ids import WorkspaceId
from penstock.http.bodies import bad_parameter
from penstock.identity import profiles
from penstock.metadb.database import Database
from penstock.settings import DAY_S
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.queries import load

_FIRST_LOOKS_MS = (3_600_000, 30 * DAY_S * 1000)
"""How far back a first look goes while it has not found enough, before it goes back to the beginning."""
_FRESH_WAIT_S = 1.0


class LiveService:
    """Its method blocks; call it from a worker thread."""

    def __init__(
        self, database: Database, warehouse: Warehouse, accounts: AccountService, clock: Clock, *, wait_until_shipped: WaitUntilShipped
    ) -> None:
        self._database, self._warehouse, self._accounts, self._clock = database, warehouse, accounts, clock
        self._wait_until_shipped = wait_until_shipped

    def recent(self, workspace_id: WorkspaceId, query: RecentQuery) -> RecentRecord:
        """What came in last, or since a cursor; at most `limit` events, newest first.

        `Malformed` for a cursor that is none, Unauthorized for a `websiteId` that is not the workspace's, Unavailable.
        """
        before, asked = _cursor(query), self._asked(workspace_id, query)
        self._wait_until_shipped(_FRESH_WAIT_S)
        now_ms, limit = self._clock(), query.limit + len(before.marks) + 1  # one more, to see whether there is more
        starts = (before.after_ms,) if query.after is not None else (*(now_ms - back_ms for back_ms in _FIRST_LOOKS_MS), 0)
        rows = []
        for after_ms in starts:
            rows = self._warehouse.ask_by_name(load("recent_events"), {**asked, "after": after_ms, "limit": limit})
            if len(rows) == limit:
                break
        new = [row for row in rows if not before.has_given(row["event_id"])]
        after = before.moved([(row["event_id"], row["received_ms"]) for row in rows], now_ms, all_read=len(rows) < limit)
        return RecentRecord(
            data=[StoredEventRecord.of(row) for row in new[: query.limit]],
            cursor=str(after),
            skipped=query.after is not None and len(new) > query.limit,
        )

    def _asked(self, workspace_id: WorkspaceId, query: RecentQuery) -> dict[str, object]:
        websites = self._accounts.websites_asked(workspace_id, query.website_id)
        keys: list[int] = []
        if query.visitor_id is not None:
            with self._database.read() as db:
                found = profiles.of_visitor(db, sorted({website.scope_id for website in websites}), query.visitor_id)
            for profile in found:
                rows = self._warehouse.ask(load("visitor_keys"), {"scope": profile.scope_id, "visitors": profile.ids})
                keys += [key for (key,) in rows]
        return {
            "websites": [website.id for website in websites],
            "kind": query.kind or "",
            "source": query.source or "",
            "name": query.name or "",
            "by_visitor": query.visitor_id is not None,
            "visitors": keys,
            "property": query.property or "",
            "values": [] if query.value is None else [json.encode(query.value).decode(), query.value],
        }


def _cursor(query: RecentQuery) -> Cursor:
    if (query.property is None) != (query.value is None):
        lacking = "value" if query.value is None else "property"
        raise bad_parameter(Fault(lacking, "required", "property and value go together."))
    try:
        return Cursor() if query.after is None else Cursor.parse(query.after)
    except ValueError:
        raise bad_parameter(Fault("after", "does_not_fit", "Must be the cursor of an earlier answer, as it was given.")) from None
