"""Wire types for the intake: first bodies, then responses."""

from collections.abc import Sequence
from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PlainValidator,
    RootModel,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from penstock.base.event_limits import MAX_BATCH_EVENTS
from penstock.base.paths import path_of_url, split_url
from penstock.events.device_clock import by_server_clock, clock_reading
from penstock.events.fields import (
    ClockOffset,
    ClockReading,
    Count,
    Currency,
    DescriptiveText,
    EventName,
    EventValidationContext,
    KnownWebsite,
    Number,
    PagePath,
    PastTimestamp,
    Properties,
    SentId,
    Timestamp,
    future_error,
)
from penstock.events.model import Status
from penstock.http.lists import UnreadList
from penstock.http.schema import Input, Record, RuleBroken
from penstock.identity.model import Resolution

_DROPPED = "How many events the sender had to drop before this one."


class ServerEvent(Input):
    """A typed event with a `visitorId` or a `userId`. `name` is an alias of `event`."""

    website_id: SentId
    """ID of a website or mobile app in the API key's workspace."""
    visitor_id: SentId | None = None
    """Opaque ID of the visitor, from a Penstock client. Required without `userId`."""
    user_id: SentId | None = None
    """Your own ID for the user. If `visitorId` is sent too, both are linked before the event is
    stored.
    """
    external_session_id: SentId | None = None
    """Your own ID for a session, stored with the event. Penstock does not use it."""
    event: EventName | None = None
    """Name of the event. Required."""
    name: EventName | None = None
    """Alias of `event`. Send only one of them."""
    event_id: SentId | None = None
    """Your own ID for the event. A repeat with the same ID is a duplicate, so you can safely send a
    request again.
    """
    properties: Properties | None = None
    """Properties of the event, such as an attempt ID."""
    timestamp: PastTimestamp | None = None
    """When the event happened: ISO 8601 with an offset, or epoch milliseconds. Default: the time of
    receipt; in a batch, by its order.
    """
    country: EventName | None = None
    """Country of the visitor, not of your server, such as `DE`."""
    region: EventName | None = None
    """Region of the visitor."""
    dropped_before: Annotated[Count | None, Field(description=_DROPPED)] = None


class TransactionEvent(ServerEvent):
    """An event with an amount. Repeats are recognised by `transactionId`, or else by `eventId`."""

    transaction_id: SentId | None = None
    """Your own ID for the transaction. A repeat with the same ID is a duplicate."""
    amount: Number | None = None
    """Amount in the currency's main unit, such as 19.99."""
    currency: Currency | None = None
    """ISO 4217 code, such as `EUR`."""


def _check_url(path: str | None, url: str | None, item_type: Any) -> None:
    """Raise `RuleBroken` if the URL is invalid.

    An item without `path` gets its path from the URL. A page view must have a path.
    """
    if url is None:
        return
    if "%00" in url:
        raise RuleBroken("nul_character", "Must not contain the NUL character (%00).")
    if path is not None:
        return
    if item_type == "pageview" and path_of_url(split_url(url)) is None:
        raise RuleBroken("not_a_url", "Must be an absolute URL, or send path instead.")


def _require_past(
    stated_ms: int,
    sent_at_ms: int | None,
    clock_offset_ms: int | None,
    context: EventValidationContext,
) -> None:
    """Raise `RuleBroken` if the time is in the future by the server's clock."""
    reading = clock_reading(sent_at_ms, clock_offset_ms, context.now_ms)
    at_ms = by_server_clock(stated_ms, reading)
    error = future_error(at_ms, context)
    field = "sentAt" if clock_offset_ms is None else "clockOffset"
    if error and at_ms != stated_ms:
        raise RuleBroken(
            error.code,
            f"Corrected by {field}, this time is in the future. "
            "sentAt must be the sender's clock at the time of sending, and clockOffset the "
            "server's time minus that clock.",
        )
    if error:
        raise error
    if at_ms < 0:
        raise RuleBroken(
            "before_1970",
            f"Corrected by {field}, this time is before 1970, which is not accepted.",
        )


_UTM = "Campaign parameter; by default, the one in `url`."


class TrackedItem(Input):
    """A page view has `path` (or `url`), a screen view has `screen`, other types have `name`.

    A path, URL, referrer, title or campaign parameter over its limit is cut, with a warning.
    """

    type: Literal["pageview", "screenview", "event", "transaction"]
    """The type of the item."""
    path: PagePath | None = None
    """Path of a page view; by default, the path of `url`."""
    screen: EventName | None = None
    """Screen of a screen view."""
    name: EventName | None = None
    """Name of an event or transaction, such as `purchase`."""
    properties: Properties | None = None
    """Properties of the event, such as an attempt ID."""
    url: DescriptiveText | None = None
    """Absolute URL of the page."""
    referrer: DescriptiveText | None = None
    """URL that led to the page."""
    title: DescriptiveText | None = None
    """Title of the page."""
    utm_source: Annotated[DescriptiveText | None, Field(description=_UTM)] = None
    utm_medium: Annotated[DescriptiveText | None, Field(description=_UTM)] = None
    utm_campaign: Annotated[DescriptiveText | None, Field(description=_UTM)] = None
    utm_content: Annotated[DescriptiveText | None, Field(description=_UTM)] = None
    utm_term: Annotated[DescriptiveText | None, Field(description=_UTM)] = None

    @classmethod
    def check_between_fields(cls, item: Any, context: EventValidationContext) -> None:
        """Check fields that depend on other fields. Raises `RuleBroken` if a check fails."""
        _check_url(item.path, item.url, item.type)

    @field_validator("url")
    @classmethod
    def _has_a_path(
        cls, url: str | None, info: ValidationInfo[EventValidationContext]
    ) -> str | None:
        is_path_invalid = "path" not in info.data
        if not is_path_invalid:
            _check_url(info.data["path"], url, info.data.get("type"))
        return url


_SENT_AT = "The sender's clock at the time of sending."
_CLOCK_OFFSET = "The server's time minus the sender's clock, in milliseconds, if it was measured."


class TimedItem(TrackedItem):
    """An item whose time may be corrected using the sender's clock."""

    sent_at: Annotated[ClockReading | None, Field(description=_SENT_AT)] = None
    clock_offset: Annotated[ClockOffset | None, Field(description=_CLOCK_OFFSET)] = None
    timestamp: Timestamp | None = None
    """When the event happened, by the sender's clock. Default: the time of receipt."""

    @classmethod
    def check_between_fields(cls, item: Any, context: EventValidationContext) -> None:
        super().check_between_fields(item, context)
        if item.timestamp is not None:
            _require_past(item.timestamp, item.sent_at, item.clock_offset, context)

    @field_validator("timestamp")
    @classmethod
    def _is_not_in_future(
        cls, stated_ms: int | None, info: ValidationInfo[EventValidationContext]
    ) -> int | None:
        sent = info.data
        if stated_ms is not None and "sent_at" in sent and "clock_offset" in sent:
            _require_past(stated_ms, sent["sent_at"], sent["clock_offset"], info.context)
        return stated_ms


_WEBSITE = "Website or mobile app."
_DEVICE = "ID of the browser or device."


class TrackItem(TimedItem):
    """A page view, screen view, event or transaction in a browser or an app."""

    website_id: Annotated[KnownWebsite, Field(description=_WEBSITE)]
    visitor_id: Annotated[SentId, Field(description=_DEVICE)]
    session_id: SentId | None = None
    """ID of the visit."""
    dedupe_key: SentId | None = None
    """Your own ID for the event. A repeat with the same ID is a duplicate."""
    dropped_before: Annotated[Count | None, Field(description=_DROPPED)] = None


BATCH_SIZE = "1 to 1,000 items, unless the server's settings say otherwise."


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | UnreadList):
        raise RuleBroken("wrong_type", "Must be a list.")
    return value


class _Envelope(Input):
    events: Annotated[
        Sequence[Any],
        PlainValidator(_items),
        WithJsonSchema({"type": "array", "items": {}}),
        Field(description=BATCH_SIZE),
    ]

    @field_validator("events")
    @classmethod
    def _has_valid_size(cls, events: Sequence[Any]) -> Sequence[Any]:
        if not events:
            raise RuleBroken("too_few", "A batch must have at least one event.")
        if len(events) > MAX_BATCH_EVENTS:
            raise RuleBroken("too_many", f"A batch may have at most {MAX_BATCH_EVENTS:,} events.")
        return events


class EventBatch(_Envelope):
    """Events from a trusted backend, each like the body of the single-event route."""


class TrackBatch(_Envelope):
    """Items from one browser or app. Fields next to `events` are defaults for the items."""

    website_id: Annotated[KnownWebsite | None, Field(description=_WEBSITE)] = None
    sent_at: Annotated[ClockReading | None, Field(description=_SENT_AT)] = None
    clock_offset: Annotated[ClockOffset | None, Field(description=_CLOCK_OFFSET)] = None


class Tracked(RootModel[TrackItem | TrackBatch]):
    """The body of `/api/track`: one item or many."""


class Identify(Input):
    """Links a visitor to a user."""

    website_id: Annotated[KnownWebsite, Field(description=_WEBSITE)]
    visitor_id: Annotated[SentId, Field(description=_DEVICE)]
    user_id: SentId
    """Your own ID for the user."""
    traits: Properties | None = None
    """Traits of the user. Other traits stay; null removes."""
    user_hash: Annotated[str | None, Field(max_length=64)] = None
    """HMAC-SHA256 of userId with the website's identity secret, in hex. Proves without an API key
    that your backend knows this user.
    """


class WarningRecord(Record):
    """A warning in a successful response."""

    code: str
    message: str


class EventRecord(Record):
    """The result for one event. A duplicate gets the IDs of the first event."""

    status: Status
    event_id: str
    visitor_id: str | None
    """The canonical visitor. For a duplicate, the visitor of the first event; null if that visitor
    was deleted.
    """
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)


class FaultRecord(Record):
    """One broken rule."""

    field: str
    """Path in the item; empty for the item as a whole."""
    code: str
    message: str


class ItemRecord(Record):
    """The result for one item of a batch."""

    index: int
    """Position in the batch, from 0."""
    status: str
    """accepted, duplicate or rejected"""
    event_id: str | None = None
    visitor_id: str | None = None
    errors: tuple[FaultRecord, ...] = ()
    more_errors: int = Field(default=0, exclude_if=not_)
    """Number of errors that are not in `errors`."""
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)


class BatchRecord(Record):
    """The results of a batch."""

    accepted: int
    duplicates: int
    rejected: int
    results: tuple[ItemRecord, ...]


class TrackRecord(BatchRecord):
    """The results, and the server's time, so that clients can measure the error of their clock."""

    server_time: str
    """When the server answered, in milliseconds."""


class IdentifyRecord(Record):
    """The result of an identify call."""

    visitor_id: str
    """The canonical visitor. Without an API key, the visitor ID as it was sent."""
    merged: bool
    """Whether this call merged two visitors. Always false without an API key."""
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        return cls.from_object(resolution, warnings=resolution.notices)
