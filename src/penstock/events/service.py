"""Use cases of events in: from a body to what became of it."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Protocol

from anyio import to_thread

from penstock.accounts.model import Caller, Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError, Unauthorized
from penstock.events.batch import TRACK_BATCH_RULES, EventBatch, Outcome, Sorted, TrackBatch, faults_of_item
from penstock.events.checking import checked
from penstock.events.fields import Bounds, FindWebsite
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt
from penstock.events.records import Identify
from penstock.events.refusals import Refusals
from penstock.events.server import OwnedWebsite, server_event
from penstock.events.track import tracked_event
from penstock.http.bodies import parse_json
from penstock.identity.model import Claim, Resolution
from penstock.settings import Settings


class ReadEvent(Protocol):
    """`server_event` or `transaction`."""

    def __call__(self, raw: Any, owned: OwnedWebsite, bounds: Bounds, *, legacy: bool) -> NewEvent: ...


class EventService:
    """Validates what was sent and hands it to the intake. Bodies are JSON texts; `Malformed` or `Invalid` when they are wrong."""

    def __init__(self, accounts: AccountService, intake: Intake, settings: Settings, clock: Clock) -> None:
        self.accounts, self.settings = accounts, settings
        self._intake, self._clock = intake, clock
        self.refusals = Refusals(clock, accounts.find_website)

    async def accept(self, caller: Caller, body: bytes, read: ReadEvent, *, legacy: bool) -> Receipt:
        """One event of a trusted backend. `Unauthorized` when the website is not of the caller's workspace."""
        raw = parse_json(body)
        find = await self._finder(raw)
        [receipt] = await self._intake.submit([read(raw, partial(_owned, caller, find), self._bounds(), legacy=legacy)])
        return receipt

    async def accept_batch(self, caller: Caller, body: bytes, *, legacy: bool) -> list[Outcome]:
        """Events of a trusted backend, each taken or refused by itself."""
        return await self._store(await to_thread.run_sync(self._sort_events, caller, body, legacy))

    async def track(self, body: bytes, user_agent: str) -> list[Outcome]:
        """One item or a batch of a browser or an app. A single item that breaks rules is `Invalid`."""
        raw = parse_json(body)
        if isinstance(raw, dict) and "events" in raw:
            return await self._store(await to_thread.run_sync(self._sort_tracked, raw, user_agent))
        bounds = self._bounds()._replace(find_website=await self._finder(raw))
        [receipt] = await self._intake.submit([tracked_event(raw, bounds, user_agent)])
        return [Outcome(receipt)]

    async def identify(self, body: bytes) -> Resolution:
        """Bind a visitor to a user, or merge it into the user's own."""
        raw = parse_json(body)
        bounds = self._bounds()._replace(find_website=await self._finder(raw))
        sent = checked(raw, Identify, (), bounds)
        website = bounds.find_website(sent.website_id)
        assert website is not None  # it was just found
        return await self._intake.identify(Claim(website.scope_id, sent.visitor_id, sent.user_id, sent.traits))

    def _bounds(self) -> Bounds:
        return Bounds(self.settings, self._clock())

    async def _finder(self, raw: Any) -> FindWebsite:
        """Finds the website that an item names, without blocking the event loop."""
        website_id = raw.get("websiteId") if isinstance(raw, dict) else None
        if not isinstance(website_id, str):
            return lambda _: None
        website = await self.accounts.locate_website(website_id)
        return lambda _: website

    def _sort_events(self, caller: Caller, body: bytes, legacy: bool) -> Sorted:
        bounds = self._bounds()
        batch = checked(parse_json(body), EventBatch, (), bounds)
        owned = partial(_owned, caller, cache(self.accounts.find_website))
        return _sorted(batch.events, lambda raw: server_event(raw, owned, bounds, legacy=legacy))

    def _sort_tracked(self, raw: Any, user_agent: str) -> Sorted:
        bounds = self._bounds()._replace(find_website=cache(self.accounts.find_website))
        batch = checked(raw, TrackBatch, TRACK_BATCH_RULES, bounds)
        shared = {name: raw[name] for name in ("websiteId", "sentAt") if name in raw}
        items = [{**shared, **item} if isinstance(item, dict) else item for item in batch.events]
        return _sorted(items, lambda item: tracked_event(item, bounds, user_agent))

    async def _store(self, batch: Sorted) -> list[Outcome]:
        return batch.outcomes(await self._intake.submit(list(batch.events.values())) if batch.events else [])


def _owned(caller: Caller, find: FindWebsite, website_id: str) -> Website:
    website = find(website_id)
    if website is None or website.workspace_id != caller.workspace_id:
        raise Unauthorized("websiteId: the workspace of this key has no such website.", code="website_not_owned")
    return website


def _sorted(items: Sequence[Any], read: Callable[[Any], NewEvent]) -> Sorted:
    batch = Sorted({}, {})
    for place, item in enumerate(items):
        try:
            batch.events[place] = read(item)
        except PenstockError as error:
            batch.refused[place] = faults_of_item(error)
    return batch
