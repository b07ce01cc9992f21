"""Plain types for the intake. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from penstock.base.errors import Fault
from penstock.base.ids import EventId, ImportId, ScopeId, VisitorId, WebsiteId
from penstock.events.device_clock import ClockReading
from penstock.events.quarantine.model import QuarantineEntry
from penstock.identity.model import Notice

EMPTY: Mapping[str, Any] = {}


class Kind(StrEnum):
    """The type of an event. Values are spelled as in the warehouse."""

    PAGEVIEW = "pageview"
    SCREENVIEW = "screenview"
    EVENT = "event"
    TRANSACTION = "transaction"
    PROVIDER = "provider"
    """A payment provider's event without a mapping. No funnel step matches this kind."""


class Source(StrEnum):
    """The sender of an event. Values are spelled as in the warehouse."""

    SERVER = "server"
    BROWSER = "browser"
    APP = "app"
    IMPORT = "import"
    PROVIDER = "provider"


class Family(StrEnum):
    """Routes that share one set of dedupe IDs.

    Stored hashes include these values, so the values must never change.
    """

    EVENTS = "events"
    TRANSACTIONS = "transactions"
    TRACK = "track"
    TRACK_KEYED = "track_keyed"
    """Has separate IDs from `TRACK`, so that senders without a key cannot use up the IDs of the
    website's backends.
    """
    IMPORTS = "imports"
    PROVIDERS = "providers"
    OPENS = "opens"
    SEGMENT = "segment"
    SEGMENT_PUBLIC = "segment_public"
    """Has separate IDs from `SEGMENT` for the same reason."""


class Target(StrEnum):
    """Warehouse tables that the outbox ships to."""

    EVENTS = "events"
    ALIASES = "visitor_aliases"
    TRAITS = "visitor_traits"
    CLICKS = "clicks"


class NewEvent(NamedTuple):
    """A validated event, ready for the intake.

    name: a page view's normalised path, a screen, or the name of an event or a transaction.
    stated_at_ms: the timestamp as sent; occurred_at_ms differs from it if the clock was corrected.
    visitor_id, user_id: IDs as sent, at least one. The intake resolves the canonical visitor.
    dedupe_key: the result of `dedupe_key()`; None for an event without an ID. earlier_dedupe_key:
    the key that earlier versions stored for the event, if it differs. client_event_id: the sender's
    own ID for the event, as sent. body_hash: the result of `body_hash()`; distinguishes a repeat
    from another event with this ID. columns: values for additional text columns of the warehouse
    (`path`, `country`, `utm_source`, ...). verified: whether the visitor or user comes from signed
    metadata of a payment provider. dropped_before: number of events that the sender had to drop
    before this one. warnings: notices about fields that were accepted but look wrong.
    has_free_keys: whether the sender chooses the property keys; if so, their number is limited.
    is_public: whether anyone may have sent it, because it came without an API key, a file or a
    provider's signature. clock: reading of the device's clock, which shows how wrong it seems. The
    intake uses all requests of the device to correct the time. links_user: whether the event links
    its visitor to its user. batch: identifies the batch with the event, if it has no timestamp, so
    that its position in the batch decides its time; see `penstock.events.batch_order`. import_id:
    the import whose line it is.
    """

    website_id: WebsiteId
    scope_id: ScopeId
    kind: Kind
    name: str
    source: Source
    occurred_at_ms: int
    stated_at_ms: int
    received_at_ms: int
    visitor_id: str | None
    user_id: str | None
    body_hash: bytes
    dedupe_key: bytes | None = None
    earlier_dedupe_key: bytes | None = None
    client_event_id: str | None = None
    columns: Mapping[str, str] = EMPTY
    properties: Mapping[str, Any] = EMPTY
    verified: bool = False
    warnings: tuple[Notice, ...] = ()
    has_free_keys: bool = True
    dropped_before: int = 0
    is_public: bool = True
    clock: ClockReading | None = None
    links_user: bool = True
    batch: object = None
    import_id: ImportId | None = None


class Replay(NamedTuple):
    """An event from the quarantine. entry: number of the quarantine entry that it replaces."""

    event: NewEvent
    entry: int


class Refusal(NamedTuple):
    """An item that validation refused, for the quarantine.

    is_event: whether it counts as a received event. is_stored: whether it is stored as well as
    counted.
    """

    entry: QuarantineEntry
    is_event: bool = True
    is_stored: bool = True


class EventCounts(NamedTuple):
    """Event counts of a website, or changes to these counts.

    received = stored + duplicates + refused + quarantined + waiting, after each transaction.
    stored: events in the warehouse. refused: events that the intake refused. quarantined: accepted
    events that the warehouse refuses. waiting: events in the outbox. dropped: refused or
    quarantined events that are no longer stored. lost_on_devices: events that clients dropped
    because their queues were full, as reported with later events.
    """

    received: int = 0
    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    quarantined: int = 0
    waiting: int = 0
    dropped: int = 0
    lost_on_devices: int = 0

    def plus(self, other: "EventCounts", times: int = 1) -> "EventCounts":
        return EventCounts(*(count + more * times for count, more in zip(self, other, strict=True)))


class Status(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"


class Receipt(NamedTuple):
    """The result for an event that is on disk. A duplicate gets the IDs of the first event.

    visitor_id: None for a duplicate whose visitor has been deleted. first_import: the import that
    stored the first event of a duplicate.
    """

    status: Status
    event_id: EventId
    visitor_id: VisitorId | None
    warnings: tuple[Notice, ...] = ()
    first_import: ImportId | None = None


class Rejected(NamedTuple):
    """The result for an event that the intake refused. No part of the event is stored."""

    fault: Fault


def dedupe_key(website_id: WebsiteId, family: Family, client_id: str) -> bytes:
    """Return the deduplication key for a client's event ID. Source: interface, section 4."""
    return blake2b(f"{website_id}\0{family}\0{client_id}".encode(), digest_size=16).digest()


@lru_cache(maxsize=1000)
def scope_tag(scope_id: ScopeId) -> int:
    """Return a 64-bit hash of an identity scope. It is stored, so it must never change."""
    return int.from_bytes(blake2b(scope_id.encode(), digest_size=8).digest(), signed=True)


def body_hash(canonical: bytes) -> bytes:
    """Hash an event as sent.

    canonical: the event's JSON with sorted keys, without the fields that a retry may change.
    """
    return blake2b(canonical, digest_size=16).digest()
