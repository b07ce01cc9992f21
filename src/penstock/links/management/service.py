"""Use cases of managed links. Methods block on the metadata DB unless they say otherwise."""

from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, StoreConflict
from penstock.base.ids import LinkId, WorkspaceId, new_id
from penstock.base.paging import Listing
from penstock.base.ttl_cache import TtlCache
from penstock.http.bodies import parse_model
from penstock.links.management import store
from penstock.links.management.addresses import WebUrlRules
from penstock.links.management.schema import LinkQuery, NewLink
from penstock.links.model import SLUG, Link
from penstock.metadb.database import Database
from penstock.settings import Settings

_CACHE_S = 1.0


class LinkService:
    """Creates, lists, disables and enables links.

    A link of another workspace is `NotFound`, like an unknown one.
    """

    def __init__(
        self, database: Database, websites: WebsiteService, settings: Settings, clock: Clock
    ) -> None:
        self._database, self._websites, self._clock = database, websites, clock
        self._rules = WebUrlRules(settings.base_url, settings.links_to_private_hosts)
        self._by_slug: TtlCache[str, Link] = TtlCache(_CACHE_S)

    def create(self, workspace_id: WorkspaceId, body: bytes) -> Link:
        """Raises `Invalid` with every fault, `NotFound` for a website that is not an app of the
        workspace, `Conflict` for a slug that is taken.
        """
        form = parse_model(body, NewLink, self._rules)
        website = self._websites.app(workspace_id, form.website_id)
        now_ms = self._clock()
        link = Link(
            id=LinkId(new_id("lnk", now_ms)),
            workspace_id=workspace_id,
            website_id=website.id,
            is_active=True,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            **form.model_dump(exclude={"website_id"}),
        )
        try:
            with self._database.write() as db:
                store.add_link(db, link)
        except StoreConflict:
            raise Conflict(
                f"The slug {form.slug} is taken, possibly by a disabled link; choose another.",
                code="slug_taken",
            ) from None
        return link

    def page(self, workspace_id: WorkspaceId, query: LinkQuery) -> Listing[Link]:
        """Newest first. Raises `Unauthorized` for a website of another workspace."""
        website_id = (
            None
            if query.website_id is None
            else self._websites.owned_website(workspace_id, query.website_id).id
        )
        with self._database.read() as db:
            return store.links_page(
                db,
                workspace_id,
                query.pagination,
                search=query.search,
                website_id=website_id,
                state=query.state,
            )

    def set_active(self, workspace_id: WorkspaceId, link_id: str, *, is_active: bool) -> Link:
        """Disable or enable a link: on this node at once, on others within a second.

        Setting the present state changes nothing.
        """
        with self._database.write() as db:
            before = store.link(db, workspace_id, link_id, for_update=True)
            if before is None:
                raise _no_such_link()
            after = replace(before, is_active=is_active, updated_at_ms=self._clock())
            if before.is_active == is_active:
                return before
            store.update_state(db, after)
        self._by_slug.forget(after.slug)
        return after

    def find(self, workspace_id: WorkspaceId, link_id: str) -> Link:
        """A link, active or disabled."""
        if "\x00" in link_id:  # PostgreSQL refuses it in a text
            raise _no_such_link()
        with self._database.read() as db:
            link = store.link(db, workspace_id, link_id)
        if link is None:
            raise _no_such_link()
        return link

    def cached(self, slug: str) -> tuple[Link, Website] | None:
        """As `find_public`, if link and app are cached. Never blocks."""
        link = self._by_slug.get(slug)
        if link is None or not link.is_active:
            return None
        website = self._websites.cached(link.website_id)
        return None if website is None else (link, website)

    async def find_public(self, slug: str) -> tuple[Link, Website] | None:
        """An active link of any workspace and its app. Does not block the event loop."""
        if not SLUG.fullmatch(slug):
            return None
        link = self._by_slug.get(slug) or await self._by_slug.fetch(slug, partial(self._read, slug))
        if link is None or not link.is_active:
            return None
        website = await self._websites.find_website_async(link.website_id)
        return None if website is None else (link, website)

    def _read(self, slug: str) -> Link | None:
        with self._database.read() as db:
            return store.link_of_slug(db, slug)


def link_of_id(db: Connection, link_id: str) -> Link | None:
    """A link of any workspace, active or disabled, in the caller's transaction."""
    return store.link_of_id(db, link_id)


def link_of_slug(db: Connection, slug: str) -> Link | None:
    """A link of any workspace, active or disabled, in the caller's transaction."""
    return store.link_of_slug(db, slug)


def _no_such_link() -> NotFound:
    return NotFound("There is no such link in this workspace.")
