"""Use cases for websites and mobile apps.

Methods block on the metadata DB unless they say otherwise: call them from a worker thread.
"""

from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller, MobileApp, Website, WebsiteKind
from penstock.accounts.websites import store
from penstock.accounts.websites.schema import (
    APP_FIELDS,
    NewWebsite,
    WebsiteChanges,
    WebsiteRecord,
    only_mobile_fault,
)
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, NotFound, Unauthorized
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.metadb.database import Database
from penstock.metadb.record_cache import RecordCache

MAX_APPS = 50
"""Maximum number of mobile apps in a workspace, because all workspaces share the files that phones
fetch.
"""

_TOPIC, _CACHE_TTL_S = "websites", 2.0


class WebsiteService:
    """Websites and mobile apps of all workspaces."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._websites: RecordCache[str, Website] = RecordCache(database, _TOPIC, _CACHE_TTL_S)
        self._apps: RecordCache[None, tuple[MobileApp, ...]] = RecordCache(
            database, _TOPIC, _CACHE_TTL_S
        )

    def websites_with_retention(self) -> list[Website]:
        """Return the websites of every workspace that have a retention period, including deleted
        websites.
        """
        with self._database.read() as db:
            return store.websites_with_retention(db)

    def create_website(self, actor: Caller, form: NewWebsite) -> Website:
        now_ms, workspace_id = self._clock(), actor.workspace_id
        website_id = WebsiteId(new_id("web", now_ms))
        website = Website(
            id=website_id,
            workspace_id=workspace_id,
            name=form.name,
            kind=form.kind,
            domain=form.domain,
            identity_scope=form.identity_scope,
            scope_id=ScopeId(
                website_id
                if form.identity_scope is None
                else f"{workspace_id}/{form.identity_scope}"
            ),
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            app=form.app,
            retention_days=form.retention_after({}),
        )
        with self._database.write() as db:
            if form.kind is WebsiteKind.MOBILE:
                _require_room_for_app(db, workspace_id)
            store.add_website(db, website)
            audit.record(db, actor, Action.WEBSITE_CREATED, f"{website.id} {website.name}", now_ms)
            self._apps.announce(db)
        self._apps.forget(None)
        return website

    def website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """Find the website for an ID in a route's path. Raises `NotFound` if the workspace does not
        own it.

        For an ID in a body or query, use `owned_website`.
        """
        website = self.find_website(website_id)
        if website is None or website.workspace_id != workspace_id:
            raise _no_such_website()
        return website

    def owned_website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """Find the website for a request's `websiteId`. Raises `Unauthorized` if the workspace does
        not own it.

        Source: interface, section 5, rule 4.
        """
        website = self.find_website(website_id)
        if website is None or website.workspace_id != workspace_id:
            raise website_not_owned()
        return website

    def selected_id(self, workspace_id: WorkspaceId, website_id: str | None) -> WebsiteId | None:
        """Return the ID of the owned website that a list is limited to; None for no limit.

        Raises `Unauthorized` if the workspace does not own the website.
        """
        return None if website_id is None else self.owned_website(workspace_id, website_id).id

    def stored_website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """Like `owned_website`, but also finds deleted websites, whose events are kept."""
        website = None
        if "\x00" not in website_id:
            with self._database.read() as db:
                website = store.website(db, website_id, with_deleted=True)
        if website is None or website.workspace_id != workspace_id:
            raise website_not_owned()
        return website

    def select_websites(self, workspace_id: WorkspaceId, website_id: str | None) -> list[Website]:
        """Return the owned website with this ID, or all websites of the workspace if the ID is
        None.
        """
        return (
            self.websites(workspace_id)
            if website_id is None
            else [self.owned_website(workspace_id, website_id)]
        )

    def app(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """Find the mobile app with this ID. Raises `NotFound` if the workspace has no such app.

        Source: interface, section 7.
        """
        website = self.find_website(website_id)
        if website is None or website.workspace_id != workspace_id:
            raise NotFound("App not found", code="app_not_found")
        if website.kind is not WebsiteKind.MOBILE:
            raise NotFound(
                "App not found: the website with this ID is of kind web, not mobile.",
                code="app_not_found",
            )
        return website

    def find_website(self, website_id: str) -> Website | None:
        """Find a website in any workspace, for public routes. Blocks only on a cache miss."""
        return (
            None
            if "\x00" in website_id
            else self._websites.load(website_id, partial(self._read_website, website_id))
        )

    def find_in_memory(self, website_id: str) -> Website | None:
        """Like `find_website`, but returns None if the website must be read. Never blocks."""
        return self._websites.get(website_id)

    async def find_website_async(self, website_id: str) -> Website | None:
        """Like `find_website`, without blocking the event loop."""
        if (website := self.find_in_memory(website_id)) is not None or "\x00" in website_id:
            return website
        return await self._websites.fetch(website_id, partial(self._read_website, website_id))

    def _read_website(self, website_id: str) -> Website | None:
        with self._database.read() as db:
            return store.website(db, website_id)

    def websites(self, workspace_id: WorkspaceId) -> list[Website]:
        """Return all websites of the workspace, oldest first."""
        with self._database.read() as db:
            return store.all_websites(db, workspace_id)

    async def mobile_apps(self) -> tuple[MobileApp, ...]:
        """Return the apps of all workspaces, like `store.mobile_apps`. Does not block the event
        loop.
        """
        if (apps := self._apps.get(None)) is not None:
            return apps
        return await self._apps.fetch(None, self._read_apps) or ()

    def load_mobile_apps(self) -> tuple[MobileApp, ...]:
        """Like `mobile_apps`. Blocks only on a cache miss."""
        return self._apps.load(None, self._read_apps) or ()

    def _read_apps(self) -> tuple[MobileApp, ...]:
        with self._database.read() as db:
            return store.mobile_apps(db)

    def websites_sharing_visitors(self, website: Website) -> list[WebsiteId]:
        """Return all websites in the website's identity scope, including deleted ones, whose events
        are kept.
        """
        with self._database.read() as db:
            return store.scope_websites(db, website.workspace_id, website.scope_id)

    def may_read_traits(self, website: Website, only_website: WebsiteId | None) -> bool:
        """Return whether a caller may read traits of the website's visitors.

        Traits belong to visitors, so they may come from any website that shares the visitors.
        only_website: the only website that the caller's key is for; None for all.
        """
        return only_website is None or len(self.websites_sharing_visitors(website)) == 1

    def websites_page(self, workspace_id: WorkspaceId, page: Page) -> Listing[Website]:
        with self._database.read() as db:
            return store.websites_page(db, workspace_id, page)

    def change_website(self, actor: Caller, website_id: str, changes: WebsiteChanges) -> Website:
        """Change the fields that were sent; the others keep their value.

        Sending only current values changes nothing.
        """
        with self._database.write() as db:
            before = store.website(db, website_id, lock=True)
            if before is None or before.workspace_id != actor.workspace_id:
                raise _no_such_website()
            after = replace(_apply_changes(before, changes), updated_at_ms=self._clock())
            changed = _changed_names(before, after)
            if not changed:
                return before
            store.update_website(db, after)
            target = f"{website_id} {after.name}: {', '.join(changed)}"
            audit.record(db, actor, Action.WEBSITE_CHANGED, target, self._clock())
            self._websites.announce(db)
        self._websites.forget(website_id)
        self._apps.forget(None)
        return after

    def delete_website(self, actor: Caller, website_id: str) -> None:
        """Delete a website. It accepts no more events and is no longer listed. Stored events are
        kept.
        """
        with self._database.write() as db:
            if not store.delete_website(db, actor.workspace_id, website_id, self._clock()):
                raise _no_such_website()
            audit.record(db, actor, Action.WEBSITE_DELETED, website_id, self._clock())
            self._websites.announce(db)
        self._websites.forget(website_id)
        self._apps.forget(None)


def _require_room_for_app(db: Connection, workspace_id: WorkspaceId) -> None:
    if store.count_apps(db, workspace_id) >= MAX_APPS:
        message = f"A workspace has at most {MAX_APPS} mobile apps; delete one that is not used."
        raise Invalid([Fault("kind", "too_many_apps", message)])


def _apply_changes(website: Website, changes: WebsiteChanges) -> Website:
    app_values = changes.sent_values(APP_FIELDS)
    changed = [name for name, value in app_values.items() if value != getattr(website.app, name)]
    if website.kind is WebsiteKind.WEB and (
        faults := [only_mobile_fault(name) for name in changed if app_values[name]]
    ):
        raise Invalid(faults)
    return replace(
        website,
        **changes.sent_values(("name", "domain", "requires_signed_identities")),
        app=replace(website.app, **app_values),
        retention_days=changes.retention_after(website.retention_days),
    )


def _changed_names(before: Website, after: Website) -> list[str]:
    """Return the names of the record's fields that differ, apart from the time of the change."""
    old, new = (
        WebsiteRecord.from_website(website).model_dump(by_alias=True) for website in (before, after)
    )
    return sorted(name for name in new if name != "updatedAt" and new[name] != old[name])


def website_not_owned() -> Unauthorized:
    return Unauthorized(
        "This workspace has no website with this ID. Check websiteId.", code="website_not_owned"
    )


def _no_such_website() -> NotFound:
    return NotFound("There is no such website in this workspace.")
