"""Use cases for managed links. Methods block on the metadata DB unless they say otherwise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic.alias_generators import to_camel
from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, Malformed, NotFound, StoreConflict
from penstock.base.ids import LinkId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.core import Core
from penstock.http.bodies import parse_model
from penstock.links.management import store
from penstock.links.management.addresses import WebUrlRules
from penstock.links.management.csv_file import MAX_ROWS
from penstock.links.management.schema import (
    LinkChange,
    LinkFilter,
    LinkQuery,
    LinkRevisionRecord,
    NewLink,
)
from penstock.links.model import REVISED, SLUG, Link
from penstock.metadb.record_cache import RecordCache

_CACHE_S = 1.0


class LinkService:
    """Creates, lists and changes links.

    url_rules: the validation context for links. by_slug: links by slug; a service that changes
    links announces it here and forgets them.

    Methods raise `NotFound` if a link is unknown or belongs to another workspace.
    """

    def __init__(self, core: Core, websites: WebsiteService) -> None:
        self._database, self._websites, self._clock = core.database, websites, core.clock
        settings = core.settings
        self.url_rules = WebUrlRules(settings.link_urls, settings.links_to_private_hosts)
        self.by_slug: RecordCache[str, Link] = RecordCache(core.database, "links", _CACHE_S)

    def create(self, workspace_id: WorkspaceId, body: bytes) -> Link:
        """Create a link.

        Raises `Invalid` with all faults, `NotFound` if the website is not an app of the workspace,
        and `Conflict` if the slug is taken.
        """
        form = parse_model(body, NewLink, self.url_rules)
        website = self._websites.app(workspace_id, form.website_id)
        link = new_link(website.id, workspace_id, form.values(), self._clock())
        try:
            with self._database.write() as db:
                store.add_links(db, [link])
        except StoreConflict:
            raise Conflict(
                f"The slug {form.slug} is taken, possibly by a disabled link; choose another.",
                code="slug_taken",
            ) from None
        return link

    def page(self, workspace_id: WorkspaceId, query: LinkQuery) -> Listing[Link]:
        """List links, newest first.

        Raises `Unauthorized` if the website belongs to another workspace.
        """
        return self._listing(workspace_id, query, query.pagination)

    def _listing(self, workspace_id: WorkspaceId, query: LinkFilter, page: Page) -> Listing[Link]:
        website_id = self._websites.selected_id(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.links_page(
                db,
                workspace_id,
                page,
                search=query.search,
                website_id=website_id,
                state=query.state,
                tag=query.tag,
                now_ms=self._clock(),
            )

    def change(self, actor: Caller, change: LinkChange, check: Callable[[Link], None]) -> Link:
        """Change the fields that were sent. Returns the link after the change.

        check: raises an error if the change conflicts with the stored link. Sending only stored
        values changes nothing.
        """
        now_ms = self._clock()
        with self._database.write() as db:
            before = _find_stored(db, actor.workspace_id, change.id, for_update=True)
            check(before)
            after = before.with_changes(change.values(), now_ms)
            if after is before:
                return before
            store.update_links(db, [(before, after)])
            if changed := _changed_fields(before, after):
                target = f"{after.id} {after.slug}: {', '.join(changed)}"
                audit.record(db, actor, Action.LINK_CHANGED, target, now_ms)
            self.by_slug.announce(db)
        self.by_slug.forget(after.slug)
        return after

    def find(self, workspace_id: WorkspaceId, link_id: str) -> Link:
        """Find an active or disabled link of the workspace."""
        with self._database.read() as db:
            return _find_stored(db, workspace_id, link_id)

    def slugs(self, workspace_id: WorkspaceId, link_ids: Sequence[str]) -> Mapping[str, str]:
        """Return slugs by link ID, for the links that belong to the workspace."""
        with self._database.read() as db:
            return store.slugs(db, workspace_id, link_ids)

    def list_all(self, workspace_id: WorkspaceId, query: LinkFilter) -> Sequence[Link]:
        """Return all matching links, newest first. Raises `Malformed` if more than `MAX_ROWS`
        match.
        """
        listing = self._listing(workspace_id, query, Page(1, MAX_ROWS))
        if listing.total > MAX_ROWS:
            raise Malformed(
                f"{listing.total:,} links are more than the {MAX_ROWS:,} that a file may have; "
                "narrow them down by websiteId, tag, state or search.",
                code="too_many_links",
            )
        return listing.data

    def revisions(
        self, workspace_id: WorkspaceId, link_id: str, page: Page
    ) -> Listing[LinkRevisionRecord]:
        """List the link's revisions, newest first."""
        link = self.find(workspace_id, link_id)
        with self._database.read() as db:
            return store.revisions_page(db, link.id, page)

    def tags(self, workspace_id: WorkspaceId) -> list[str]:
        """Return the workspace's first 200 tags in alphabetical order."""
        with self._database.read() as db:
            return store.tags(db, workspace_id)

    async def find_public(self, slug: str) -> tuple[Link, Website] | None:
        """Find an active link of any workspace, and its app. Does not block the event loop."""
        link = self.by_slug.get(slug)
        if link is None and SLUG.fullmatch(slug):
            link = await self.by_slug.fetch(slug, partial(self._read, slug))
        if link is None or not link.is_active:
            return None
        website = await self._websites.find_website_async(link.website_id)
        return None if website is None else (link, website)

    def _read(self, slug: str) -> Link | None:
        with self._database.read() as db:
            return store.link_of_slug(db, slug)


def new_link(
    website_id: WebsiteId, workspace_id: WorkspaceId, values: Mapping[str, Any], now_ms: int
) -> Link:
    """Return a link that is not stored yet. values: fields, as `NewLink.values` returns them."""
    return Link(
        id=LinkId(new_id("lnk", now_ms)),
        workspace_id=workspace_id,
        website_id=website_id,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        **values,
    )


link_of_id = store.link_of_id
link_of_slug = store.link_of_slug


def link_of_revision(db: Connection, link_id: str, revision: int) -> Link | None:
    """Find a past revision of a link of any workspace, in the caller's transaction.

    `is_active` and `is_archived` have their current values.
    """
    link = store.link_of_id(db, link_id)
    if link is None or link.revision == revision:
        return link
    return replace(link, **store.revision(db, link_id, revision))


def _changed_fields(before: Link, after: Link) -> list[str]:
    return [
        to_camel(name.removesuffix("_ms"))
        for name in REVISED
        if getattr(before, name) != getattr(after, name)
    ]


def _find_stored(
    db: Connection, workspace_id: WorkspaceId, link_id: str, *, for_update: bool = False
) -> Link:
    # PostgreSQL does not accept NUL in texts.
    link = None
    if "\x00" not in link_id:
        link = store.link(db, workspace_id, link_id, for_update=for_update)
    if link is None:
        raise _no_such_link()
    return link


def _no_such_link() -> NotFound:
    return NotFound("There is no such link in this workspace.")
