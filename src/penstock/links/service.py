"""Use cases of managed links. Methods block for as long as the metadata DB takes, unless they say otherwise."""

from dataclasses import replace
from functools import partial

from sqlalchemy.exc import IntegrityError

from penstock.accounts.model import Website
from penstock.accounts.recent import Recent
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import LinkId, WorkspaceId, new_id
from penstock.base.paging import Listing
from penstock.http.bodies import parse_model
from penstock.links import store
from penstock.links.addresses import WebRules
from penstock.links.model import Link
from penstock.links.schema import SLUG, LinkQuery, NewLink
from penstock.metadb.database import Database
from penstock.settings import Settings

_BELIEVED_S = 1.0


class LinkService:
    """Create, list, disable and enable links. One of another workspace is as unknown as one that never was: NotFound."""

    def __init__(self, database: Database, accounts: AccountService, settings: Settings, clock: Clock) -> None:
        self._database, self._accounts, self._clock = database, accounts, clock
        self._rules = WebRules(settings.base_url, settings.links_to_private_hosts)
        self._by_slug: Recent[str, Link] = Recent(_BELIEVED_S)

    def create(self, workspace_id: WorkspaceId, body: bytes) -> Link:
        """`Invalid` with every fault, `NotFound` when the website is not an app of the workspace, `Conflict` when the slug is taken."""
        form = parse_model(body, NewLink, self._rules)
        website = self._accounts.app(workspace_id, form.website_id)
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
        except IntegrityError:
            raise Conflict(f"slug: {form.slug} is taken, maybe by a disabled link; choose another.", code="slug_taken") from None
        return link

    def page(self, workspace_id: WorkspaceId, asked: LinkQuery) -> Listing[Link]:
        """`Unauthorized` when the website that is asked for is not of the workspace."""
        website_id = None if asked.website_id is None else self._accounts.owned_website(workspace_id, asked.website_id).id
        with self._database.read() as db:
            return store.links_page(db, workspace_id, asked.asked, search=asked.search, website_id=website_id, state=asked.state)

    def switch(self, workspace_id: WorkspaceId, link_id: str, *, is_active: bool) -> Link:
        """Disable or enable a link; on this node at once, on others within a second. To ask for what it is already changes nothing."""
        if "\x00" in link_id:
            raise _no_such_link()
        with self._database.write() as db:
            before = store.link(db, workspace_id, link_id, hold=True)
            if before is None:
                raise _no_such_link()
            after = replace(before, is_active=is_active, updated_at_ms=self._clock())
            if before.is_active == is_active:
                return before
            store.change_state(db, after)
        self._by_slug.forget(after.slug)
        return after

    def find(self, workspace_id: WorkspaceId, link_id: str) -> Link:
        """One link, in use or not."""
        with self._database.read() as db:
            found = store.link(db, workspace_id, link_id)
        if found is None:
            raise _no_such_link()
        return found

    async def locate(self, slug: str) -> tuple[Link, Website] | None:
        """A link in use, and its app, for the public side; None when there is none. Does not block the event loop."""
        if not SLUG.fullmatch(slug):
            return None
        link = self._by_slug.get(slug) or await self._by_slug.fetch(slug, partial(self._read, slug))
        if link is None or not link.is_active:
            return None
        website = await self._accounts.locate_website(link.website_id)
        return None if website is None else (link, website)

    def _read(self, slug: str) -> Link | None:
        with self._database.read() as db:
            return store.link_of_slug(db, slug)


def _no_such_link() -> NotFound:
    return NotFound("There is no such link in this workspace.")
