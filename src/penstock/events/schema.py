"""Wire types of the intake: bodies, then answers."""

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

from penstock.base.errors import Fault
from penstock.base.paths import path_of_url, split_url
from penstock.events.device_clock import by_server_clock, clock_reading
from penstock.events.fields import (
    ClockOffset,
    ClockReading,
    Count,
    Currency,
    EventName,
    EventValidationContext,
    KnownWebsite,
    Number,
    PagePath,
    PastTimestamp,
    Properties,
    SentId,
    Text,
    Timestamp,
    future_error,
)
from penstock.events.model import Status
from penstock.http.lists import UnreadList
from penstock.http.schema import Input, Record, RuleBroken
from penstock.identity.model import Notice, Resolution


class ServerEvent(Input):
    """A typed event with a `visitorId` or a `userId`. `name` is an alias of `event`."""

    website_id: SentId
    visitor_id: SentId | None = None
    user_id: SentId | None = None
    external_session_id: SentId | None = None
    event: EventName | None = None
    name: EventName | None = None
    event_id: SentId | None = None
    properties: Properties | None = None
    timestamp: PastTimestamp | None = None
    country: EventName | None = None
    region: EventName | None = None
    dropped_before: Count | None = None


class TransactionEvent(ServerEvent):
    """An event with an amount. Repeats have the same `transactionId`, or without it `eventId`."""

    transaction_id: SentId | None = None
    amount: Number | None = None
    currency: Currency | None = None


def _check_url(
    path: str | None, url: str | None, item_type: Any, context: EventValidationContext
) -> None:
    """An item without `path` gets it from its URL, which a page view then needs. `RuleBroken`."""
    if url is None:
        return
    if "%00" in url:
        raise RuleBroken("nul_character", "Must not contain the NUL character (%00).")
    if path is not None:
        return
    path = path_of_url(split_url(url))
    limit = context.limits.max_path_chars
    if path is None and item_type == "pageview":
        raise RuleBroken("not_a_url", "Must be an absolute URL, or send path instead.")
    if path is not None and len(path) > limit:
        raise RuleBroken("too_long", f"The path may have at most {limit:,} characters.")


def _require_past(
    stated_ms: int,
    sent_at_ms: int | None,
    clock_offset_ms: int | None,
    context: EventValidationContext,
) -> None:
    """The time by the server's clock is not in the future."""
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


class TrackedItem(Input):
    """A page view has `path` (or `url`), a screen view `screen`, the others `name`."""

    type: Literal["pageview", "screenview", "event", "transaction"]
    path: PagePath | None = None
    screen: EventName | None = None
    name: EventName | None = None
    properties: Properties | None = None
    url: Text | None = None
    referrer: Text | None = None
    title: Text | None = None
    utm_source: Text | None = None
    utm_medium: Text | None = None
    utm_campaign: Text | None = None
    utm_content: Text | None = None
    utm_term: Text | None = None

    @classmethod
    def check_between_fields(cls, item: Any, context: EventValidationContext) -> None:
        """What the validators of single fields check with other fields. `RuleBroken`."""
        _check_url(item.path, item.url, item.type, context)

    @field_validator("url")
    @classmethod
    def _has_a_path(
        cls, url: str | None, info: ValidationInfo[EventValidationContext]
    ) -> str | None:
        is_path_invalid = "path" not in info.data
        if not is_path_invalid:
            _check_url(info.data["path"], url, info.data.get("type"), info.context)
        return url


class TimedItem(TrackedItem):
    """An item whose time may be corrected by the sender's clock."""

    sent_at: ClockReading | None = None
    clock_offset: ClockOffset | None = None
    timestamp: Timestamp | None = None

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


class TrackItem(TimedItem):
    """A page view, screen view, event or transaction in a browser or an app."""

    website_id: KnownWebsite
    visitor_id: SentId
    session_id: SentId | None = None
    dedupe_key: SentId | None = None
    dropped_before: Count | None = None


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
    def _has_valid_size(
        cls, events: Sequence[Any], info: ValidationInfo[EventValidationContext]
    ) -> Sequence[Any]:
        limit = info.context.limits.max_batch_events
        if not events:
            raise RuleBroken("too_few", "A batch must have at least one event.")
        if len(events) > limit:
            raise RuleBroken("too_many", f"A batch may have at most {limit:,} events.")
        return events


class EventBatch(_Envelope):
    """Events of a trusted backend, each as for the single route."""


class TrackBatch(_Envelope):
    """Items of one browser or app. Fields beside `events` are defaults for the items."""

    website_id: KnownWebsite | None = None
    sent_at: ClockReading | None = Field(
        default=None, description="The sender's clock at the time of sending."
    )
    clock_offset: ClockOffset | None = None


class Tracked(RootModel[TrackItem | TrackBatch]):
    """The body of `/api/track`: one item or many."""


class Identify(Input):
    """Links a visitor to a user. traits: facts about the user; they replace earlier ones."""

    website_id: KnownWebsite
    visitor_id: SentId
    user_id: SentId
    traits: Properties | None = None
    user_hash: Annotated[
        str | None,
        Field(
            max_length=64,
            description="HMAC-SHA256 of userId with the website's identity secret, in hex. "
            "Proves without an API key that your backend knows this user.",
        ),
    ] = None


class WarningRecord(Record):
    """A warning beside a successful answer."""

    code: str
    message: str

    @classmethod
    def all_of(cls, notices: Sequence[Notice]) -> tuple[Self, ...]:
        return tuple(cls(code=notice.code, message=notice.message) for notice in notices)


class EventRecord(Record):
    """The result for one event. Of a duplicate, the IDs are the first event's."""

    status: Status
    event_id: str
    visitor_id: str | None = Field(
        description="The canonical visitor; of a duplicate, the first event's. "
        "Null when that visitor was deleted."
    )
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)


class FaultRecord(Record):
    """One broken rule."""

    field: str = Field(description="Path inside the item; empty for the item as a whole.")
    code: str
    message: str

    @classmethod
    def of(cls, fault: Fault) -> Self:
        return cls(field=fault.field, code=fault.code, message=fault.message)


class ItemRecord(Record):
    """The result for one item of a batch."""

    index: int = Field(description="Place in the batch, from 0.")
    status: str = Field(description="accepted, duplicate or rejected")
    event_id: str | None = None
    visitor_id: str | None = None
    errors: tuple[FaultRecord, ...] = ()
    more_errors: int = Field(
        default=0, exclude_if=not_, description="Number of errors that `errors` leaves out."
    )
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)


class BatchRecord(Record):
    """The results of a batch."""

    accepted: int
    duplicates: int
    rejected: int
    results: tuple[ItemRecord, ...]


class TrackRecord(BatchRecord):
    """The results, and the time for clients that measure how wrong their clock is."""

    server_time: str = Field(description="When the server answered, in milliseconds.")


class IdentifyRecord(Record):
    """The result of identify."""

    visitor_id: str = Field(
        description="The canonical visitor; without an API key, the visitor ID as sent."
    )
    merged: bool = Field(
        description="Whether this call merged two visitors; without an API key, always false."
    )
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        return cls(
            visitor_id=resolution.visitor_id,
            merged=resolution.merged,
            warnings=WarningRecord.all_of(resolution.notices),
        )
