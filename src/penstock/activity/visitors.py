"""Use cases of visitors: finding them, and what is known of one."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.activity.schema import (
    MergeRecord,
    StoredEventRecord,
    TimelineQuery,
    UserRecord,
    VisitorDetailRecord,
    VisitorRecord,
    VisitorsQuery,
    WebsiteQuery,
)
from penstock.base.clock import Clock, iso
from penstock.base.errors import Fault, NotFound
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.http.bodies import bad_parameter
from penstock.identity import profiles
from penstock.identity.profiles import Profile
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.queries import load


class Found(NamedTuple):
    """One visitor, and how the engine is asked for its events."""

    profile: Profile
    scope: Mapping[str, Any]


class VisitorService:
    """Its methods block; call them from a worker thread.

    All raise Unauthorized for a `websiteId` that is not the workspace's, and Unavailable when the warehouse does not answer.
    """

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        accounts: AccountService,
        settings: Settings,
        clock: Clock,
        *,
        wait_until_shipped: WaitUntilShipped,
    ) -> None:
        self._database, self._warehouse, self._accounts, self._settings, self._clock = database, warehouse, accounts, settings, clock
        self._wait_until_shipped = wait_until_shipped

    def visitors(self, workspace_id: WorkspaceId, query: VisitorsQuery) -> Listing[VisitorRecord]:
        """The one active last first. What a deletion has removed is not listed, though it may be counted until its events are gone."""
        websites = self._accounts.websites_asked(workspace_id, query.website_id)
        self._wait_until_shipped(self._settings.fresh_wait_s)
        if query.search is not None:
            return self._matching(websites, query.search, query.asked)
        rows = self._active(websites, query.days, query.asked)
        if not rows and query.page > 1:
            first = self._active(websites, query.days, Page(1, 1))
            return Listing([], query.asked, first[0]["total"] if first else 0)
        users: dict[tuple[str, str], str | None] = {}
        with self._database.read() as db:
            for scope_id in {website.scope_id for website in websites}:
                names = [row["name"] for row in rows if row["scope"] == scope_id]
                users |= {(scope_id, name): user_id for name, user_id in profiles.users_of(db, scope_id, names).items()}
        found = [_listed(row["name"], users[key], row) for row in rows if (key := (row["scope"], row["name"])) in users]
        return Listing(found, query.asked, rows[0]["total"] if rows else 0)

    def _active(self, websites: Collection[Website], days: int, page: Page) -> list[dict[str, Any]]:
        now_ms = self._clock()
        asked = {
            "websites": [website.id for website in websites],
            "scopes": sorted({website.scope_id for website in websites}),
            "since": now_ms - days * DAY_S * 1000,
            "until": now_ms + self._settings.future_tolerance_s * 1000,
            "limit": page.size,
            "offset": page.offset,
        }
        return self._warehouse.ask_by_name(load("active_visitors"), asked)

    def _matching(self, websites: Collection[Website], search: str, page: Page) -> Listing[VisitorRecord]:
        scopes = {website.scope_id: website for website in websites}
        with self._database.read() as db:
            found = profiles.of_visitor(db, list(scopes), search) + profiles.of_user(db, list(scopes), search)
        visitors = {(profile.scope_id, profile.visitor_id): profile for profile in found}
        summed = []
        for profile in visitors.values():
            summary = self._summary(self._found(profile, scopes[profile.scope_id]))
            summed.append((summary["last_ms"], _listed(profile.visitor_id, profile.user and profile.user.id, summary)))
        records = [record for _, record in sorted(summed, key=lambda one: -one[0])]
        return Listing(records[page.offset : page.offset + page.size], page, len(records))

    def visitor(self, workspace_id: WorkspaceId, visitor_id: str, query: WebsiteQuery) -> VisitorDetailRecord:
        """visitor_id: any ID of the visitor. NotFound when there is none, or it was deleted."""
        found = self._find(workspace_id, visitor_id, query.website_id)
        return self._detail(found, self._summary(found))

    def timeline(self, workspace_id: WorkspaceId, visitor_id: str, query: TimelineQuery) -> Listing[StoredEventRecord]:
        """The visitor's events on all websites that share their visitors, newest first. Errors as of `visitor`."""
        found = self._find(workspace_id, visitor_id, query.website_id)
        return self._timeline(found, self._summary(found), query.asked)

    def visitor_with_timeline(
        self, workspace_id: WorkspaceId, visitor_id: str, query: TimelineQuery
    ) -> tuple[VisitorDetailRecord, Listing[StoredEventRecord]]:
        """Both of them, of one look."""
        found = self._find(workspace_id, visitor_id, query.website_id)
        summary = self._summary(found)
        return self._detail(found, summary), self._timeline(found, summary, query.asked)

    def _detail(self, found: Found, summary: Mapping[str, Any]) -> VisitorDetailRecord:
        profile, user = found.profile, found.profile.user
        last = self._events(found, Page(1, 1)) if summary["events"] else []
        listed = _listed(profile.visitor_id, user and user.id, summary)
        return VisitorDetailRecord(
            **dict(listed),
            ids=profile.ids,
            known_since=iso(profile.created_at_ms),
            user=None if user is None else UserRecord(user_id=user.id, traits=user.traits and dict(user.traits), since=iso(user.since_ms)),
            merges=[
                MergeRecord(visitor_id=one.visitor_id, user_id=one.user_id, merged_at=iso(one.merged_at_ms)) for one in profile.absorbed
            ],
            pageviews=summary["pageviews"],
            screenviews=summary["screenviews"],
            transactions=summary["transactions"],
            last_event=last[0] if last else None,
        )

    def _timeline(self, found: Found, summary: Mapping[str, Any], page: Page) -> Listing[StoredEventRecord]:
        return Listing(self._events(found, page), page, summary["events"])

    def _find(self, workspace_id: WorkspaceId, visitor_id: str, website_id: str | None) -> Found:
        scopes = {website.scope_id: website for website in self._accounts.websites_asked(workspace_id, website_id)}
        with self._database.read() as db:
            found = profiles.of_visitor(db, list(scopes), visitor_id)
        if not found:
            raise NotFound("There is no such visitor in this workspace, or it was deleted.", code="visitor_not_found")
        if len(found) > 1:
            several = "This visitor ID stands for different visitors on several websites; say which website."
            raise bad_parameter(Fault("websiteId", "does_not_fit", several))
        self._wait_until_shipped(self._settings.fresh_wait_s)
        return self._found(found[0], scopes[found[0].scope_id])

    def _found(self, profile: Profile, website: Website) -> Found:
        websites = self._accounts.websites_sharing_visitors(website)
        return Found(profile, {"websites": websites, "scope": profile.scope_id, "visitors": profile.ids})

    def _summary(self, found: Found) -> dict[str, Any]:
        [summary] = self._warehouse.ask_by_name(load("visitor_summary"), found.scope)
        return summary

    def _events(self, found: Found, page: Page) -> list[StoredEventRecord]:
        rows = self._warehouse.ask_by_name(load("visitor_events"), {**found.scope, "limit": page.size, "offset": page.offset})
        return [StoredEventRecord.of(row) for row in rows]


def _listed(visitor_id: str, user_id: str | None, row: Mapping[str, Any]) -> VisitorRecord:
    """row: of `active_visitors.sql` or `visitor_summary.sql`."""
    has_events = bool(row["events"])
    return VisitorRecord(
        visitor_id=visitor_id,
        user_id=user_id,
        website_id=row["last_website"] or None,
        events=row["events"],
        first_event_at=iso(row["first_ms"]) if has_events else None,
        last_event_at=iso(row["last_ms"]) if has_events else None,
    )
