"""Use cases of an app's open: which link it came from, the event and the visitor's UTM that follow from it, and the audit."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog
from anyio import to_thread
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from penstock.accounts.attempts import Attempts
from penstock.accounts.model import Website, WebsiteKind
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, NotFound, RatePolicy, Unavailable
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.events.fields import Bounds
from penstock.events.intake import Intake
from penstock.events.model import Receipt, Status
from penstock.events.spool import Spool
from penstock.http.bodies import parse_model
from penstock.identity import service as identity
from penstock.links import claims_store, matches_store, store
from penstock.links.finding import Asked, decide
from penstock.links.matches import Listed, Match, Touches
from penstock.links.model import Link
from penstock.links.networks import network_of
from penstock.links.opens import install_event, open_event, visitor_of_install
from penstock.links.resolve_schema import AppOpen
from penstock.links.resolving import Decision, Reason
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings

log = structlog.get_logger()

MATCHES_KEPT_DAYS = 90
_CLICKS_WAIT_S = 2.0
_TIDY_EVERY_S = 30.0


class Resolver:
    """Answers opens and keeps what becomes of them. clicks: the spool of this node."""

    def __init__(
        self, database: Database, accounts: AccountService, intake: Intake, clicks: Spool, settings: Settings, clock: Clock
    ) -> None:
        self._database, self._accounts, self._intake, self._clicks = database, accounts, intake, clicks
        self._settings, self._clock = settings, clock
        self._attempts = Attempts(RatePolicy("resolve", quota=settings.resolves_per_minute, window_s=60))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs, what has run out is removed."""
        tidying = asyncio.create_task(self._tidy_now_and_then(), name="clicks and matches")
        try:
            yield
        finally:
            tidying.cancel()
            with suppress(asyncio.CancelledError):
                await tidying

    async def resolve(self, body: bytes, address: str, user_agent: str) -> tuple[Decision, VisitorId]:
        """What an open came from, and its canonical visitor. When this returns, the event is on disk.

        `RateLimited`, `Malformed`, `Invalid` with every fault, `Unavailable`: ask again then; what was claimed stays the install's.
        """
        now_ms = self._clock()
        self._attempts.count((network_of(address) or address,), now_ms)
        sent = parse_model(body, AppOpen, Bounds(self._settings, now_ms))
        website = await self._accounts.locate_website(sent.website_id)
        if website is None or website.kind is not WebsiteKind.MOBILE:
            raise Invalid([Fault("websiteId", "unknown_website", "There is no such app; its ID is in the tracking settings.")])
        visitor_id = VisitorId(sent.visitor_id or visitor_of_install(website.id, sent.install_id))
        decision = Decision(now_ms, reason=Reason.NO_CLICK)
        if sent.first_open or sent.hands_over:
            decision = await to_thread.run_sync(self._decide, sent, website, visitor_id, address, now_ms)
        receipt = await self._store(sent, website, visitor_id, decision, user_agent, now_ms)
        canonical = receipt.visitor_id or visitor_id  # a deleted visitor comes back as a new one
        if decision.link is not None:
            await to_thread.run_sync(self._touch, website.scope_id, canonical, decision)
        return decision, canonical

    def _decide(self, sent: AppOpen, website: Website, visitor_id: VisitorId, address: str, now_ms: int) -> Decision:
        # A click of a moment ago may still be in a file of this node.
        if not self._clicks.wait_until_stored(_CLICKS_WAIT_S):
            raise Unavailable("Clicks of this moment are not stored yet; try again.", code="store_unavailable", retry_after_s=1)
        referrer_window_ms = self._settings.install_referrer_days * DAY_S * 1000
        with self._database.write() as db:
            decision = decide(db, Asked(sent, website, address, self._settings.base_url, referrer_window_ms, now_ms))
            matches_store.add(db, _matches(sent, website, visitor_id, decision, now_ms))
        return decision

    async def _store(
        self, sent: AppOpen, website: Website, visitor_id: VisitorId, decision: Decision, user_agent: str, now_ms: int
    ) -> Receipt:
        """An install that counts already, and only now finds its link, is one more open."""
        first = None
        if sent.first_open:
            [first] = await self._intake.submit([install_event(sent, website, visitor_id, decision, user_agent, now_ms)])
            if first.status is Status.ACCEPTED or not decision.matched or not any(told.code == "body_differs" for told in first.warnings):
                return first
        [receipt] = await self._intake.submit([open_event(sent, website, visitor_id, decision, user_agent, now_ms)])
        return receipt

    def _touch(self, scope_id: ScopeId, visitor_id: VisitorId, decision: Decision) -> None:
        assert decision.link is not None
        with self._database.write() as db:
            matches_store.touch(db, scope_id, visitor_id, decision.link.id, decision.utm, decision.at_ms)

    # The audit

    def matches(self, workspace_id: WorkspaceId, website_id: str | None, page: Page) -> Listing[Listed]:
        """All resolves that found or looked for something. `Unauthorized` when the website is not of the workspace."""
        website = None if website_id is None else self._accounts.owned_website(workspace_id, website_id)
        with self._database.read() as db:
            return matches_store.page(db, workspace_id, page, website_id=website.id if website else None)

    def matches_of_link(self, workspace_id: WorkspaceId, link_id: str, page: Page) -> Listing[Listed]:
        """`NotFound` when the workspace has no such link."""
        with self._database.read() as db:
            link = store.link(db, workspace_id, link_id)
            if link is None:
                raise NotFound("There is no such link in this workspace.")
            return matches_store.page(db, workspace_id, page, link_id=link.id)

    def touches(self, workspace_id: WorkspaceId, website_id: str, visitor_id: str) -> Touches:
        """What led a visitor here first and last, as anyone that it was before merges. `Unauthorized` as `matches`."""
        website = self._accounts.owned_website(workspace_id, website_id)
        with self._database.read() as db:
            ids = identity.ids_of(db, website.scope_id, visitor_id)
            firsts, lasts = matches_store.touches(db, website.scope_id, ids)
        return Touches.of(ids[0], firsts, lasts)

    # Removal

    def tidy(self) -> None:
        """Remove what has run out. Blocks."""
        now_ms = self._clock()
        with self._database.write() as db:
            claims_store.drop_ended(db, now_ms)
            matches_store.drop_before(db, now_ms - MATCHES_KEPT_DAYS * DAY_S * 1000)

    async def _tidy_now_and_then(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.tidy)
            except DBAPIError as error:
                log.warning("clicks_not_removed", error=str(error.orig))
            await asyncio.sleep(_TIDY_EVERY_S)


def _matches(sent: AppOpen, website: Website, visitor_id: VisitorId, decision: Decision, now_ms: int) -> Sequence[Match]:
    """One for each link that the decision concerns, one without a link when it concerns none."""
    concerned: Sequence[Link | None] = decision.links or [None]
    return [
        Match(
            id=new_id("mat", now_ms),
            workspace_id=website.workspace_id,
            website_id=website.id,
            link_id=link.id if link else None,
            click_id=decision.click.id if decision.click else None,
            at_ms=now_ms,
            matched=decision.matched,
            method=decision.method,
            confidence=decision.confidence,
            reason=decision.reason,
            platform=sent.platform,
            os_version=sent.os_version,
            app_version=sent.app_version,
            first_open=sent.first_open,
            clicked_at_ms=decision.click.clicked_at_ms if decision.click else None,
            install_id=sent.install_id,
            scope_id=website.scope_id,
            visitor_id=visitor_id,
        )
        for link in concerned
    ]


def forget_opens(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> None:
    """Forget what led some visitors here and which opens were theirs, as part of the transaction that deletes them."""
    claims_store.forget_claimers(db, matches_store.forget_visitors(db, scope_id, visitor_ids))
