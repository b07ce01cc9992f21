"""Use cases for visitors: list, search, details and timeline."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from penstock.accounts.keys.service import wrong_website_of_key
from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.activity.schema import StoredEventRecord
from penstock.activity.visitors.schema import (
    MAX_LISTED_MERGES,
    TimelineQuery,
    VisitorDetailRecord,
    VisitorRecord,
    VisitorsQuery,
    WebsiteQuery,
)
from penstock.base.errors import Fault, NotFound
from penstock.base.event_limits import FUTURE_TOLERANCE_S
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.core import Core
from penstock.http.bodies import bad_parameter
from penstock.identity.profiles import service as profiles
from penstock.identity.profiles.model import Profile
from penstock.identity.profiles.service import PersonNames
from penstock.metadb.person import PersonName
from penstock.settings import DAY_S
from penstock.warehouse.client import WaitUntilShipped
from penstock.warehouse.queries import load


class _VisitorEvents(NamedTuple):
    """A visitor as its caller may see it.

    scope: the query parameters that select its events. shows_traits: whether the caller may read
    the traits of its user.
    """

    profile: Profile
    scope: Mapping[str, Any]
    shows_traits: bool


class VisitorService:
    """Reads a workspace's visitors. Methods block: call them from a worker thread.

    They raise `Unauthorized` for another workspace's `websiteId` and `Unavailable` when the
    warehouse does not respond.
    """

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        people: PersonNames,
        *,
        wait_until_shipped: WaitUntilShipped,
    ) -> None:
        self._database, self._warehouse, self._clock = core.database, core.warehouse, core.clock
        self._settings, self._websites, self._people = core.settings, websites, people
        self._wait_until_shipped = wait_until_shipped

    def visitors(
        self,
        workspace_id: WorkspaceId,
        query: VisitorsQuery,
        only_website: WebsiteId | None = None,
    ) -> Listing[VisitorRecord]:
        """Return visitors, most recently active first.

        only_website: the only website whose events the caller may see; None for all websites of
        the workspace.

        Omits deleted visitors; the total may include them until their events are deleted. Raises
        `Forbidden` if such a caller may not read the trait that selects visitors.
        """
        websites = self._websites.select_websites(workspace_id, query.website_id)
        if (
            only_website is not None
            and query.trait is not None
            and not all(self._websites.may_read_traits(site, only_website) for site in websites)
        ):
            raise wrong_website_of_key(only_website)
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        if query.search is not None:
            matching = self._search(
                workspace_id, websites, query.search, query.pagination, only_website
            )
            if matching.total:
                return matching
        rows = self._active(websites, query, query.pagination)
        if not rows and query.page > 1:
            first = self._active(websites, query, Page(1, 1))
            return Listing([], query.pagination, first[0]["total"] if first else 0)
        people = self._people.read(workspace_id, [(row["scope"], row["name"]) for row in rows])
        records = [
            _visitor_record(row["name"], _seen_by(people[key], only_website), row)
            for row in rows
            if (key := (row["scope"], row["name"])) in people
        ]
        return Listing(records, query.pagination, rows[0]["total"] if rows else 0)

    def _active(
        self, websites: Collection[Website], query: VisitorsQuery, page: Page
    ) -> list[dict[str, Any]]:
        now_ms = self._clock()
        parameters = {
            "websites": [website.id for website in websites],
            "scopes": sorted({website.scope_id for website in websites}),
            "since": now_ms - query.days * DAY_S * 1000,
            "until": now_ms + FUTURE_TOLERANCE_S * 1000,
            "limit": page.size,
            "offset": page.offset,
            "part": query.search or "",
            "country": (query.country or "").upper(),
            "device": query.device or "",
            "event": query.event or "",
            "trait": query.trait or "",
            "trait_value": query.trait_value or "",
        }
        return self._warehouse.fetch_dicts(
            load("penstock.activity.visitors", "active_visitors"), parameters
        )

    def _search(
        self,
        workspace_id: WorkspaceId,
        websites: Collection[Website],
        search: str,
        page: Page,
        only_website: WebsiteId | None,
    ) -> Listing[VisitorRecord]:
        scopes = {website.scope_id: website for website in websites}
        with self._database.read() as db:
            matches = profiles.find_by_visitor_id(
                db, list(scopes), search
            ) + profiles.find_by_user_id(db, list(scopes), search)
        visitors = {(profile.scope_id, profile.visitor_id): profile for profile in matches}
        visitor_records = []
        for profile in visitors.values():
            website = scopes[profile.scope_id]
            summary = self._summary(self._visitor_events(profile, website, only_website))
            person = self._person(workspace_id, profile, only_website)
            record = _visitor_record(profile.visitor_id, person, summary)
            visitor_records.append((summary["last_ms"], record))
        records = [record for _, record in sorted(visitor_records, key=lambda pair: -pair[0])]
        return Listing(records[page.offset : page.offset + page.size], page, len(records))

    def visitor(
        self,
        workspace_id: WorkspaceId,
        visitor_id: str,
        query: WebsiteQuery,
        only_website: WebsiteId | None = None,
    ) -> VisitorDetailRecord:
        """Return the visitor with this canonical or merged ID.

        Raises `NotFound` if the ID is unknown or the visitor was deleted.
        only_website: see `visitors`. Such a caller gets no traits if the website shares its
        visitors with others.
        """
        visitor = self._find(workspace_id, visitor_id, query.website_id, only_website)
        return self._detail(workspace_id, visitor, self._summary(visitor), only_website)

    def timeline(
        self,
        workspace_id: WorkspaceId,
        visitor_id: str,
        query: TimelineQuery,
        only_website: WebsiteId | None = None,
    ) -> Listing[StoredEventRecord]:
        """Return the visitor's events on all websites that share visitors, newest first.

        only_website: see `visitors`. Raises the same errors as `visitor`.
        """
        visitor = self._find(workspace_id, visitor_id, query.website_id, only_website)
        return self._timeline(visitor, self._summary(visitor), query.pagination)

    def visitor_with_timeline(
        self, workspace_id: WorkspaceId, visitor_id: str, query: TimelineQuery
    ) -> tuple[VisitorDetailRecord, Listing[StoredEventRecord]]:
        """Return the visitor and a page of its timeline, from one snapshot of its IDs."""
        visitor = self._find(workspace_id, visitor_id, query.website_id)
        summary = self._summary(visitor)
        detail = self._detail(workspace_id, visitor, summary)
        return detail, self._timeline(visitor, summary, query.pagination)

    def _person(
        self, workspace_id: WorkspaceId, profile: Profile, only_website: WebsiteId | None
    ) -> PersonName | None:
        key = profile.scope_id, profile.visitor_id
        return _seen_by(self._people.read(workspace_id, [key]).get(key), only_website)

    def _detail(
        self,
        workspace_id: WorkspaceId,
        visitor: _VisitorEvents,
        summary: Mapping[str, Any],
        only_website: WebsiteId | None = None,
    ) -> VisitorDetailRecord:
        profile, user = visitor.profile, visitor.profile.user
        last = self._events(visitor, Page(1, 1)) if summary["events"] else []
        person = self._person(workspace_id, profile, only_website)
        record = _visitor_record(profile.visitor_id, person, summary)
        return VisitorDetailRecord(
            **dict(record),
            ids=profile.ids[: 1 + MAX_LISTED_MERGES],
            known_since=profile.created_at_ms,
            user=user if user is None or visitor.shows_traits else user._replace(traits=None),
            merges=profile.absorbed[:MAX_LISTED_MERGES],
            merged_visitors=len(profile.absorbed),
            pageviews=summary["pageviews"],
            screenviews=summary["screenviews"],
            transactions=summary["transactions"],
            last_event=last[0] if last else None,
        )

    def _timeline(
        self, visitor: _VisitorEvents, summary: Mapping[str, Any], page: Page
    ) -> Listing[StoredEventRecord]:
        return Listing(self._events(visitor, page), page, summary["events"])

    def _find(
        self,
        workspace_id: WorkspaceId,
        visitor_id: str,
        website_id: str | None,
        only_website: WebsiteId | None = None,
    ) -> _VisitorEvents:
        scopes = {
            website.scope_id: website
            for website in self._websites.select_websites(workspace_id, website_id)
        }
        with self._database.read() as db:
            matches = profiles.find_by_visitor_id(db, list(scopes), visitor_id)
        if not matches:
            raise NotFound(
                "There is no such visitor in this workspace, or it was deleted.",
                code="visitor_not_found",
            )
        if len(matches) > 1:
            message = "Several websites have a visitor with this ID. Choose one with websiteId."
            raise bad_parameter(Fault("websiteId", "does_not_fit", message))
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        return self._visitor_events(matches[0], scopes[matches[0].scope_id], only_website)

    def _visitor_events(
        self, profile: Profile, website: Website, only_website: WebsiteId | None
    ) -> _VisitorEvents:
        websites = (
            self._websites.websites_sharing_visitors(website)
            if only_website is None
            else [only_website]
        )
        scope = {"websites": websites, "scope": profile.scope_id, "visitors": profile.ids}
        shows_traits = self._websites.may_read_traits(website, only_website)
        return _VisitorEvents(profile, scope, shows_traits)

    def _summary(self, visitor: _VisitorEvents) -> dict[str, Any]:
        [summary] = self._warehouse.fetch_dicts(
            load("penstock.activity.visitors", "visitor_summary"), visitor.scope
        )
        return summary

    def _events(self, visitor: _VisitorEvents, page: Page) -> list[StoredEventRecord]:
        rows = self._warehouse.fetch_dicts(
            load("penstock.activity.visitors", "visitor_events"),
            {**visitor.scope, "limit": page.size, "offset": page.offset},
        )
        return [StoredEventRecord.from_row(row) for row in rows]


def _seen_by(person: PersonName | None, only_website: WebsiteId | None) -> PersonName | None:
    """Return the name as a caller may see it: a key for one website gets no traits.

    They may come from websites that the key cannot read.
    """
    return person and (person if only_website is None else person._replace(name=person.user_id))


def _visitor_record(
    visitor_id: str, person: PersonName | None, row: Mapping[str, Any]
) -> VisitorRecord:
    """Return the record for a row of `active_visitors.sql` or `visitor_summary.sql`."""
    has_events = bool(row["events"])
    website_id, kind, name = row["last_event"]
    return VisitorRecord(
        visitor_id=visitor_id,
        user_id=person and person.user_id,
        person=person and person.name,
        website_id=website_id or None,
        country=row["last_country"] or None,
        device=row["last_device"] or None,
        events=row["events"],
        first_event_at=row["first_ms"] if has_events else None,
        last_event_at=row["last_ms"] if has_events else None,
        last_event_kind=kind if has_events else None,
        last_event_name=name if has_events else None,
    )
