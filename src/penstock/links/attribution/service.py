"""Attributes app opens to links, stores events and touches, and keeps the audit list."""

from collections.abc import Sequence
from operator import attrgetter

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts.model import WebsiteKind
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Fault, Invalid, RatePolicy, Unavailable
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId, new_id
from penstock.base.networks import client_network
from penstock.base.paging import Listing, Page
from penstock.base.user_agent import parse_in_thread
from penstock.base.value_budget import EVENT
from penstock.base.worker import Worker
from penstock.core import Core
from penstock.events.fields import EventValidationContext
from penstock.events.intake import Intake
from penstock.events.model import Receipt, Status
from penstock.http.bodies import compute_on, parse_model
from penstock.http.rate_limiter import RateLimiter
from penstock.identity import service as identity
from penstock.links.attribution import store
from penstock.links.attribution.evidence_lookup import decide
from penstock.links.attribution.model import Decision, Match, Reason
from penstock.links.attribution.open_context import OpenContext, visitor_of
from penstock.links.attribution.open_events import install_event, open_event
from penstock.links.attribution.schema import AppOpen, MatchRecord, TouchesRecord
from penstock.links.clicks.buffer import ClickBuffer
from penstock.links.clicks.match_keys import delete_expired_secrets
from penstock.links.management.service import LinkService
from penstock.links.model import Link
from penstock.metadb.person import Person, StoredRecord
from penstock.settings import DAY_S

MATCH_RETENTION_DAYS = 90
_BUFFER_WAIT_S = 2.0
_TIDY_EVERY_S = 30.0
RESOLVES_PER_MINUTE = 300
"""Maximum number of app opens per minute from one network address."""


class AttributionService:
    """Attributes opens to links and stores the results. click_buffer: this node's buffer."""

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        links: LinkService,
        intake: Intake,
        click_buffer: ClickBuffer,
    ) -> None:
        self._database, self._settings, self._clock = core.database, core.settings, core.clock
        self._websites, self._links = websites, links
        self._intake, self._click_buffer = intake, click_buffer
        self.worker = Worker(
            "link_cleanup",
            self.delete_expired,
            core.clock,
            period_s=_TIDY_EVERY_S,
            first_after_s=_TIDY_EVERY_S,
        )
        self._attempts = RateLimiter(
            RatePolicy("resolve", quota=RESOLVES_PER_MINUTE, window_s=60), core.clock
        )

    async def resolve(
        self, body: bytes, address: str, user_agent_header: str
    ) -> tuple[Decision, VisitorId]:
        """Decide which link an open came from. Returns once the event is on disk.

        Returns the decision and the canonical visitor. Raises `Invalid` with all faults,
        `Malformed`, `RateLimited` or `Unavailable`. A retry after `Unavailable` is safe: the
        install keeps any click it claimed.
        """
        now_ms = self._clock()
        self._attempts.count((client_network(address),))
        limits = EventValidationContext(now_ms)
        app_open = await compute_on(body, parse_model, body, AppOpen, limits, EVENT)
        website = await self._websites.find_website_async(app_open.website_id)
        if website is None or website.kind is not WebsiteKind.MOBILE:
            message = "There is no such app. Copy its ID from Settings, Websites and apps."
            raise Invalid([Fault("websiteId", "unknown_website", message)])
        context = OpenContext(
            app_open,
            website,
            visitor_of(app_open, website),
            address,
            await parse_in_thread(user_agent_header),
            self._settings,
            now_ms,
        )
        decision = Decision(now_ms, reason=Reason.NO_CLICK)
        if app_open.first_open or app_open.has_evidence:
            decision = await to_thread.run_sync(self._decide, context)
        receipt = await self._submit(context, decision)
        # The IDs differ after a merge or a deletion.
        canonical = receipt.visitor_id or context.visitor_id
        if decision.link is not None:
            await to_thread.run_sync(self._add_touch, website.scope_id, canonical, decision)
        return decision, canonical

    def _decide(self, context: OpenContext) -> Decision:
        # The click may still be in this node's buffer.
        if not self._click_buffer.wait_until_stored(_BUFFER_WAIT_S):
            raise Unavailable(
                "The latest clicks are not stored yet; try again.",
                code="store_unavailable",
                retry_after_s=1,
            )
        app_open = context.app_open
        with self._database.write() as db:
            if app_open.first_open:
                store.lock_install(db, context.website.id, app_open.install_id)
            decision = decide(db, context)
            matches = _matches(context, decision)
            if app_open.first_open:  # A retry with the same outcome is not listed again.
                matches = [match for match in matches if not store.is_listed(db, match)]
            if matches:
                store.add_matches(db, matches)
        return decision

    async def _submit(self, context: OpenContext, decision: Decision) -> Receipt:
        """Store the event and return its receipt.

        If the install was stored without a link and now matches one, an `open` event is added.
        """
        if context.app_open.first_open:
            install = await self._intake.submit_own(install_event(context, decision))
            if (
                install.status is Status.ACCEPTED
                or not decision.is_match
                or not any(warning.code == "body_differs" for warning in install.warnings)
            ):
                return install
        return await self._intake.submit_own(open_event(context, decision))

    def _add_touch(self, scope_id: ScopeId, visitor_id: VisitorId, decision: Decision) -> None:
        assert decision.link is not None
        with self._database.write() as db:
            store.add_touch(
                db, scope_id, visitor_id, decision.link.id, decision.utm, decision.at_ms
            )

    # The audit list

    def matches(
        self, workspace_id: WorkspaceId, website_id: str | None, page: Page
    ) -> Listing[MatchRecord]:
        """List first opens and opens with evidence, newest first.

        Raises `Unauthorized` if the website belongs to another workspace.
        """
        own_id = self._websites.selected_id(workspace_id, website_id)
        with self._database.read() as db:
            return store.matches_page(db, workspace_id, page, website_id=own_id)

    def matches_of_link(
        self, workspace_id: WorkspaceId, link_id: str, page: Page
    ) -> Listing[MatchRecord]:
        """List the link's matches. Raises `NotFound` if it belongs to another workspace."""
        link = self._links.find(workspace_id, link_id)
        with self._database.read() as db:
            return store.matches_page(db, workspace_id, page, link_id=link.id)

    def touches(self, workspace_id: WorkspaceId, website_id: str, visitor_id: str) -> TouchesRecord:
        """Return the first and last touch of a visitor, including visitors merged into this one.

        Raises `Unauthorized` if the website belongs to another workspace.
        """
        website = self._websites.owned_website(workspace_id, website_id)
        with self._database.read() as db:
            ids = identity.visitor_ids(db, website.scope_id, visitor_id)
            first_touches, last_touches = store.touches_of_visitors(db, website.scope_id, ids)
        return TouchesRecord(
            visitor_id=ids[0],
            first_touch=min(first_touches, key=attrgetter("at"), default=None),
            last_touch=max(last_touches, key=attrgetter("at"), default=None),
        )

    # Clean-up

    def delete_expired(self) -> None:
        """Delete expired match keys, clicks, secrets and matches in batches. Blocks."""
        now_ms = self._clock()
        for delete_some, until_ms in (
            (store.clear_expired_match_keys, now_ms),
            (store.delete_expired_clicks, now_ms),
            (store.delete_matches_before, now_ms - MATCH_RETENTION_DAYS * DAY_S * 1000),
        ):
            has_more = True
            while has_more and not self.worker.is_stopping:
                self.worker.report_progress()
                with self._database.write() as db:
                    has_more = delete_some(db, until_ms)
        with self._database.write() as db:
            delete_expired_secrets(db, now_ms)


def _matches(context: OpenContext, decision: Decision) -> Sequence[Match]:
    """Return one match for each link that the decision involves, or one match without a link."""
    app_open, website, click = context.app_open, context.website, decision.click
    links: Sequence[Link | None] = decision.links or [None]
    return [
        Match(
            id=new_id("mat", context.now_ms),
            workspace_id=website.workspace_id,
            website_id=website.id,
            link_id=link.id if link else None,
            link_revision=link.revision if link else 1,
            click_id=click.id if click else None,
            at_ms=context.now_ms,
            matched=decision.is_match,
            method=decision.method,
            confidence=decision.confidence,
            reason=decision.reason,
            platform=app_open.platform,
            os_version=app_open.os_version,
            app_version=app_open.app_version,
            first_open=app_open.first_open,
            clicked_at_ms=click.clicked_at_ms if click else None,
            install_id=app_open.install_id,
            scope_id=website.scope_id,
            visitor_id=context.visitor_id,
        )
        for link in links
    ]


def visitor_opens(db: Connection, person: Person) -> Sequence[StoredRecord]:
    """Return a person's touches and app opens."""
    return store.visitor_opens(db, person.scope_id, person.visitor_ids)


def forget_opens(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> dict[str, int]:
    """Delete the visitors' touches and anonymise their opens. Returns the number of each.

    Runs in the transaction that deletes the visitors.
    """
    forgotten = store.forget_visitors(db, scope_id, visitor_ids)
    store.forget_claimers(db, forgotten.click_ids)
    return {"touches": forgotten.touches, "opensUnlinked": forgotten.opens}
