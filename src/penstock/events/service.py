"""Use cases for incoming events, from a body to the results.

Every route takes the same steps: parse the body, find its website, validate its items, submit the
valid items to the intake, and return the results once the events are on disk.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.keys.service import KeyService, require_website_of_key
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService, website_not_owned
from penstock.base.errors import Invalid, RatePolicy
from penstock.base.event_limits import MAX_BATCH_EVENTS
from penstock.base.ids import VisitorId
from penstock.base.user_agent import UserAgent, parse_in_thread
from penstock.base.value_budget import EVENT
from penstock.core import Core
from penstock.events import store
from penstock.events.batch import (
    TRACK_BATCH_RULES,
    ItemResult,
    ValidatedBatch,
    defaults_of,
)
from penstock.events.field_warnings import field_warnings
from penstock.events.fields import (
    EventValidationContext,
    FindWebsite,
    require_own_website,
)
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt, Rejected
from penstock.events.schema import EventBatch, Identify, TrackBatch
from penstock.events.server_events import (
    OwnedWebsite,
    plain_server_event,
    server_event,
    transaction,
)
from penstock.events.tracked_events import plain_tracked_event, tracked_event
from penstock.events.validation import RawItem, validate
from penstock.http.bodies import compute_on, is_light, parse_object
from penstock.http.lists import EVENT_LIST, UnreadList, parse_object_with_list
from penstock.http.rate_limiter import RateLimiter
from penstock.identity.model import Claim, Resolution, StatedTraits, redact
from penstock.identity.trust import claim_trust

ship_rows = store.put_rows_in_outbox
T = TypeVar("T")
R = TypeVar("R", bound=Receipt | Rejected)

_RATE_WINDOW_S = 10
_MAX_ITEMS_ON_LOOP = 10
"""Maximum number of items validated on the event loop. More would block it for over 1 ms."""
_MAX_VALUES_ON_LOOP = 300
"""Maximum number of values in a body that is validated on the event loop. Ten browser events have
150.
"""

_FOR_ARRAYS: Mapping[Callable[..., NewEvent], str] = {
    server_event: 'Send many events to /api/v1/events/batch, as {"events": [...]}.',
    transaction: "Send one transaction with each request.",
}
"""Advice for senders of an array to a route that accepts one event."""


class EventReader(Protocol):
    """The type of `server_event` and `transaction`."""

    def __call__(
        self,
        raw: Any,
        owned_website: OwnedWebsite,
        context: EventValidationContext,
        *,
        legacy: bool,
    ) -> NewEvent: ...


class EventService:
    """Validates bodies and submits their events to the intake.

    Bodies are JSON text. Methods raise `Malformed` or `Invalid` if a body is wrong.
    """

    def __init__(
        self,
        core: Core,
        keys: KeyService,
        websites: WebsiteService,
        identity_secrets: IdentitySecretService,
        intake: Intake,
    ) -> None:
        self.settings, self.clock, self._validation = core.settings, core.clock, core.validation
        self.keys, self.websites, self._identity_secrets = keys, websites, identity_secrets
        self._intake, self.quota = intake, intake.quota
        self._rates = RateLimiter(
            RatePolicy(
                "website",
                quota=core.settings.share(core.settings.website_events_per_second * _RATE_WINDOW_S),
                window_s=_RATE_WINDOW_S,
                counted="events of this website",
            ),
            core.clock,
        )

    async def accept(
        self, caller: Caller, body: bytes, reader: EventReader, *, legacy: bool
    ) -> Receipt:
        """Store one event of a trusted backend durably.

        Raises `Invalid` if the event is invalid, `Unauthorized` if the website belongs to another
        workspace, and `Unavailable` if the intake cannot store the event.
        """
        event = None
        if reader is server_event and not legacy and is_light(body, _MAX_VALUES_ON_LOOP):
            event = plain_server_event(body, partial(self._known_website, caller), self._context())
        if event is None:
            raw = await _compute_on(body, parse_object, body, _FOR_ARRAYS[reader])
            website = await self._find_website(raw.get("websiteId"))
            owned_website = partial(_owned_website, caller, lambda _: website)
            read = partial(reader, raw, owned_website, self._context(), legacy=legacy)
            event = await _compute_on(body, read)
        self._rates.count((event.website_id, False))
        return _receipt_of(await self._intake.submit([event]))

    async def accept_batch(self, caller: Caller, body: bytes, *, legacy: bool) -> list[ItemResult]:
        """Store the valid events of a trusted backend's batch."""
        batch = await self._validation.run(
            caller.workspace_id, self._validate_events, caller, body, legacy
        )
        return await self._submit_batch(batch, caller)

    async def track(
        self, body: bytes, user_agent_header: str, address: str, caller: Caller | None = None
    ) -> list[ItemResult]:
        """Store an item or a batch from a browser or an app.

        address: the sender's network; large bodies from different networks take turns.
        caller: the owner of the API key, if one was sent.

        Raises `Invalid` if a single item is invalid, and `Unauthorized` if the website and the key
        belong to different workspaces.
        """
        user_agent = await parse_in_thread(user_agent_header)
        if is_light(body, _MAX_VALUES_ON_LOOP):
            known = self._context(self.websites.find_in_memory, caller)
            if (event := plain_tracked_event(body, known, user_agent)) is not None:
                self._rates.count((event.website_id, event.is_public))
                receipt = _receipt_of(await self._intake.submit([event]))
                return [ItemResult(_for_sender(caller, event, receipt))]
        raw, named_website_id = await self.parse(body, address, _parse_tracked)
        website = await self._find_website(named_website_id)
        if website is not None:  # Count before validation, so that rejected items count too.
            self.count_items(website, _number_of_items(raw), is_public=caller is None)
        context = self._context(lambda _: website, caller)
        if "events" not in raw:
            event = await _compute_on(body, tracked_event, raw, context, user_agent)
            receipt = _receipt_of(await self._intake.submit([event]))
            return [ItemResult(_for_sender(caller, event, receipt))]
        if is_light(body, _MAX_VALUES_ON_LOOP) and _has_few_items(raw, named_website_id):
            batch = _read_tracked_batch(raw, context, user_agent)
        else:
            turn = website.workspace_id if website else address
            batch = await self._validation.run(
                turn, self._validate_tracked, raw, user_agent, caller
            )
        return await self._submit_batch(batch, caller, counted=website)

    async def parse(
        self, body: bytes, address: str, function: Callable[..., T], *arguments: object
    ) -> T:
        """Parse a body with the given function. Large bodies wait for their address's turn."""
        if EVENT_LIST.is_small(body):
            return await _compute_on(body, function, body, *arguments)
        return await self._validation.run(address, function, body, *arguments)

    async def identify(self, body: bytes, caller: Caller | None = None) -> Resolution:
        """Link a visitor to a user, or merge it into the user's visitor.

        caller: see `track`. Without a caller, the result repeats the request, so that it reveals
        nothing about other visitors.
        """
        raw = await compute_on(body, parse_object, body, "", EVENT)
        website = await self._find_website(raw.get("websiteId"))
        context = self._context(lambda _: website, caller)
        request = await compute_on(body, validate, raw, Identify, (), context)
        assert website is not None  # `KnownWebsite` guarantees this.
        require_own_website(website, context)
        self.count_items(website, 1, is_public=caller is None)
        is_signed = (
            None
            if request.user_hash is None
            else await self._identity_secrets.is_signed(
                website.id, request.user_id, request.user_hash
            )
        )
        trust = claim_trust(website, is_backend=caller is not None, is_signed=is_signed)
        resolution = await self._intake.identify(
            Claim(
                website.scope_id,
                request.visitor_id,
                request.user_id,
                None if request.traits is None else StatedTraits(request.traits),
                trust,
                website.id,
            )
        )
        if not caller:
            resolution = redact(resolution, request.visitor_id)
        return resolution._replace(notices=(*resolution.notices, *field_warnings(raw)))

    def count_items(self, website: Website, items: int, *, is_public: bool) -> None:
        """Count the items of one body.

        is_public: whether they came without a key, so that anyone may have sent them. Such items
        have a separate quota and cannot use up the quota of the website's backends.

        Raises `RateLimited` if the website has no quota left.
        """
        counted = min(items, MAX_BATCH_EVENTS)
        self._rates.count((website.id, is_public), amount=counted)

    def _count(
        self, events: Sequence[NewEvent], counted: Website | None, *, is_public: bool
    ) -> None:
        """Count events by website.

        counted: a website whose events are already counted. is_public: see `count_items`.

        Raises `RateLimited` if a website has no quota left.
        """
        numbers = Counter(event.website_id for event in events)
        if counted is not None:
            del numbers[counted.id]
        for website_id, count in numbers.items():
            self._rates.count((website_id, is_public), amount=count)

    def _context(
        self, find_website: FindWebsite = lambda _: None, caller: Caller | None = None
    ) -> EventValidationContext:
        return EventValidationContext(self.clock(), find_website, caller)

    async def _find_website(self, website_id: object) -> Website | None:
        """Find the website with the given ID, as sent. Does not block the event loop."""
        if not isinstance(website_id, str):
            return None
        return await self.websites.find_website_async(website_id)

    def _known_website(self, caller: Caller, website_id: str) -> Website | None:
        """Find the caller's website in memory; None if it must be read or is not theirs."""
        website = self.websites.find_in_memory(website_id)
        is_own = (
            website is not None
            and website.workspace_id == caller.workspace_id
            and caller.website_id in (None, website.id)
        )
        return website if is_own else None

    def _validate_events(self, caller: Caller, body: bytes, legacy: bool) -> ValidatedBatch:
        context = self._context()._replace(batch=object())
        raw = parse_object_with_list(body, "events", EVENT_LIST)
        batch = validate(raw, EventBatch, (), context)
        owned_website = partial(_owned_website, caller, cache(self.websites.find_website))
        return ValidatedBatch.of(
            batch.events, lambda raw: server_event(raw, owned_website, context, legacy=legacy)
        )

    def _validate_tracked(
        self, raw: RawItem, user_agent: UserAgent, caller: Caller | None
    ) -> ValidatedBatch:
        context = self._context(cache(self.websites.find_website), caller)
        return _read_tracked_batch(raw, context, user_agent)

    async def _submit_batch(
        self, batch: ValidatedBatch, caller: Caller | None, counted: Website | None = None
    ) -> list[ItemResult]:
        """Store the valid events of a batch. counted: see `_count`."""
        events = list(batch.events.values())
        self._count(events, counted, is_public=caller is None)
        results = await self._intake.submit(events) if events else []
        pairs = zip(batch.events.values(), results, strict=True)
        return batch.results([_for_sender(caller, event, result) for event, result in pairs])


async def _compute_on(body: bytes, function: Callable[..., T], *arguments: object) -> T:
    return await compute_on(body, function, *arguments, max_values=_MAX_VALUES_ON_LOOP)


def _read_tracked_batch(
    raw: RawItem, context: EventValidationContext, user_agent: UserAgent
) -> ValidatedBatch:
    batch = validate(raw, TrackBatch, TRACK_BATCH_RULES, context)
    if batch.website_id and (website := context.find_website(batch.website_id)):
        require_own_website(website, context)
    defaults, own_context = defaults_of(raw), context._replace(batch=object())

    def read(item: Any) -> NewEvent:
        own = {**defaults, **item} if isinstance(item, dict) else item
        return tracked_event(own, own_context, user_agent)

    return ValidatedBatch.of(batch.events, read)


def _receipt_of(results: Sequence[Receipt | Rejected]) -> Receipt:
    """Return the receipt of the only event. Raises `Invalid` if the intake rejected it."""
    [result] = results
    if isinstance(result, Rejected):
        raise Invalid([result.fault])
    return result


def _for_sender(caller: Caller | None, event: NewEvent, result: R) -> R:
    """Return a result as its sender may see it.

    Senders without a key get back their own visitor ID, not the canonical ID.
    """
    if caller is not None or event.visitor_id is None or not isinstance(result, Receipt):
        return result
    if result.visitor_id is None:
        return result
    return result._replace(visitor_id=VisitorId(event.visitor_id))


def _number_of_items(raw: RawItem) -> int:
    items = raw.get("events")
    return len(items) if isinstance(items, list | UnreadList) else 1


def _has_few_items(raw: RawItem, website_id: object) -> bool:
    """Whether the event loop may validate a batch: it is short and only for this website."""
    items = raw["events"]
    return (
        isinstance(items, list)
        and len(items) <= _MAX_ITEMS_ON_LOOP
        and all(_names_only(item, website_id) for item in items)
    )


def _names_only(item: object, website_id: object) -> bool:
    return not isinstance(item, dict) or item.get("websiteId", website_id) == website_id


def _parse_tracked(body: bytes) -> tuple[dict[str, Any], object]:
    """Return the parsed body, and the website ID from the body or else from its first item."""
    raw = parse_object_with_list(body, "events", EVENT_LIST)
    items = raw.get("events")
    if "websiteId" not in raw and isinstance(items, list | UnreadList) and items:
        with suppress(Invalid):  # The first item may be too large.
            if isinstance(first := items[0], dict):
                return raw, first.get("websiteId")
    return raw, raw.get("websiteId")


def _owned_website(caller: Caller, find_website: FindWebsite, website_id: str) -> Website:
    website = find_website(website_id)
    if website is None or website.workspace_id != caller.workspace_id:
        raise website_not_owned()
    require_website_of_key(caller, website.id)
    return website
