"""Use cases of events in, from a body to the results.

Every route takes the same steps: parse the body, find its website, validate its items, submit the
valid ones to the intake, and answer with the results once they are on disk.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Protocol

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts.keys.service import KeyService
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.ids import VisitorId
from penstock.base.user_agent import UserAgent, parse_in_thread
from penstock.events import store
from penstock.events.batch import (
    TRACK_BATCH_RULES,
    ItemResult,
    ValidatedBatch,
)
from penstock.events.fields import (
    EventValidationContext,
    FindWebsite,
    require_own_website,
    website_not_owned,
)
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt, Target
from penstock.events.rejections.service import RejectionLog
from penstock.events.schema import EventBatch, Identify, TrackBatch
from penstock.events.server_events import OwnedWebsite, server_event
from penstock.events.tracked_events import tracked_event
from penstock.events.validation import RawItem, validate
from penstock.http.bodies import compute_on, parse_object
from penstock.identity.model import Claim, Resolution, Trust, as_sent
from penstock.settings import Settings


class EventReader(Protocol):
    """`server_event` or `transaction`."""

    def __call__(
        self,
        raw: Any,
        owned_website: OwnedWebsite,
        context: EventValidationContext,
        *,
        legacy: bool,
    ) -> NewEvent: ...


class EventService:
    """Validates bodies and submits them to the intake.

    Bodies are JSON text; `Malformed` or `Invalid` when they are wrong.
    """

    def __init__(
        self,
        keys: KeyService,
        websites: WebsiteService,
        intake: Intake,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self.keys, self.websites, self.settings = keys, websites, settings
        self._intake, self._clock, self.quota = intake, clock, intake.quota
        self.rejections = RejectionLog(clock, websites.find_website)

    async def read_event(
        self, caller: Caller, body: bytes, reader: EventReader, *, legacy: bool
    ) -> NewEvent:
        """Validate one event of a trusted backend.

        `Unauthorized` when the website belongs to another workspace.
        """
        raw = await compute_on(body, parse_object, body)
        owned_website = partial(_owned_website, caller, await self._website_finder(raw))
        read = partial(reader, raw, owned_website, self._context(), legacy=legacy)
        return await compute_on(body, read)

    async def submit(self, event: NewEvent) -> Receipt:
        """Store one event durably. `Unavailable` when the intake cannot."""
        [receipt] = await self._intake.submit([event])
        return receipt

    async def accept_batch(self, caller: Caller, body: bytes, *, legacy: bool) -> list[ItemResult]:
        """Store the valid events of a trusted backend's batch."""
        batch = await to_thread.run_sync(self._validate_events, caller, body, legacy)
        return await self._submit_batch(batch, caller)

    async def track(
        self, body: bytes, user_agent_header: str, caller: Caller | None = None
    ) -> list[ItemResult]:
        """Store an item or a batch of a browser or an app.

        `Invalid` for a single invalid item. caller: of the key, if one was sent; `Unauthorized`
        when the website belongs to another workspace.
        """
        raw = await compute_on(body, parse_object, body)
        user_agent = await parse_in_thread(user_agent_header)
        if "events" in raw:
            batch = await to_thread.run_sync(self._validate_tracked, raw, user_agent, caller)
            return await self._submit_batch(batch, caller)
        context = self._context(await self._website_finder(raw), caller)
        event = await compute_on(body, tracked_event, raw, context, user_agent)
        return [ItemResult(_for_sender(caller, event, await self.submit(event)))]

    async def identify(self, body: bytes, caller: Caller | None = None) -> Resolution:
        """Link a visitor to a user, or merge it into the user's own visitor. caller: as `track`.

        Without a key, the result is what was sent: it tells nothing about other visitors.
        """
        raw = await compute_on(body, parse_object, body)
        context = self._context(await self._website_finder(raw), caller)
        request = await compute_on(body, validate, raw, Identify, (), context)
        website = context.find_website(request.website_id)
        assert website is not None  # `KnownWebsite` has found it
        require_own_website(website, context)
        trust = Trust.PUBLIC if caller is None else Trust.BACKEND
        resolution = await self._intake.identify(
            Claim(
                website.scope_id,
                request.visitor_id,
                request.user_id,
                request.traits,
                trust,
                website.id,
            )
        )
        return resolution if caller else as_sent(resolution, request.visitor_id)

    def _context(
        self, find_website: FindWebsite = lambda _: None, caller: Caller | None = None
    ) -> EventValidationContext:
        workspace_id = caller.workspace_id if caller else None
        return EventValidationContext(self.settings, self._clock(), find_website, workspace_id)

    async def _website_finder(self, raw: RawItem) -> FindWebsite:
        """Finds the website that an item names, looked up without blocking the event loop."""
        website_id = raw.get("websiteId")
        if not isinstance(website_id, str):
            return lambda _: None
        website = await self.websites.find_website_async(website_id)
        return lambda _: website

    def _validate_events(self, caller: Caller, body: bytes, legacy: bool) -> ValidatedBatch:
        context = self._context()
        batch = validate(parse_object(body), EventBatch, (), context)
        owned_website = partial(_owned_website, caller, cache(self.websites.find_website))
        return ValidatedBatch.of(
            batch.events, lambda raw: server_event(raw, owned_website, context, legacy=legacy)
        )

    def _validate_tracked(
        self, raw: RawItem, user_agent: UserAgent, caller: Caller | None
    ) -> ValidatedBatch:
        context = self._context(cache(self.websites.find_website), caller)
        batch = validate(raw, TrackBatch, TRACK_BATCH_RULES, context)
        if batch.website_id and (website := context.find_website(batch.website_id)):
            require_own_website(website, context)
        defaults = {name: raw[name] for name in ("websiteId", "sentAt") if name in raw}
        items = [{**defaults, **item} if isinstance(item, dict) else item for item in batch.events]
        return ValidatedBatch.of(items, lambda item: tracked_event(item, context, user_agent))

    async def _submit_batch(self, batch: ValidatedBatch, caller: Caller | None) -> list[ItemResult]:
        events = list(batch.events.values())
        receipts = await self._intake.submit(events) if events else []
        return batch.results(
            [
                _for_sender(caller, event, receipt)
                for event, receipt in zip(events, receipts, strict=True)
            ]
        )


def _for_sender(caller: Caller | None, event: NewEvent, receipt: Receipt) -> Receipt:
    """The receipt; without a key, with the visitor ID as sent instead of the canonical one."""
    if caller is not None or receipt.visitor_id is None or event.visitor_id is None:
        return receipt
    return receipt._replace(visitor_id=VisitorId(event.visitor_id))


def ship_rows(db: Connection, target: Target, rows: Sequence[str]) -> None:
    """Put rows of a warehouse table into the outbox, in the caller's transaction. rows: JSON."""
    store.put_rows_in_outbox(db, target, rows)


def _owned_website(caller: Caller, find_website: FindWebsite, website_id: str) -> Website:
    website = find_website(website_id)
    if website is None or website.workspace_id != caller.workspace_id:
        raise website_not_owned()
    return website
