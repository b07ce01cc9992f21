"""Plain types of the intake. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from penstock.base.ids import EventId, ScopeId, VisitorId, WebsiteId
from penstock.identity.model import Notice

EMPTY: Mapping[str, Any] = {}


class Kind(StrEnum):
    """What happened; the value is the warehouse's spelling."""

    PAGEVIEW = "pageview"
    SCREENVIEW = "screenview"
    EVENT = "event"
    TRANSACTION = "transaction"
    PROVIDER = "provider"
    """Something a payment provider told that Penstock has no meaning for. No row of a funnel asks for this kind."""


class Source(StrEnum):
    """Who told of it; the value is the warehouse's spelling."""

    SERVER = "server"
    BROWSER = "browser"
    APP = "app"
    IMPORT = "import"
    PROVIDER = "provider"


class Family(StrEnum):
    """Routes whose clients share one space of dedupe IDs. Stored in hashes: a value may never change."""

    EVENTS = "events"
    TRANSACTIONS = "transactions"
    TRACK = "track"
    IMPORTS = "imports"
    PROVIDERS = "providers"
    OPENS = "opens"


class Target(StrEnum):
    """Tables of the warehouse that the outbox ships to."""

    EVENTS = "events"
    ALIASES = "visitor_aliases"
    CLICKS = "clicks"


class NewEvent(NamedTuple):
    """A validated event, ready for the intake.

    name: a pageview's normalised path, a screen, an event name or a transaction event.
    stated_at_ms: the time the sender gave; differs from occurred_at_ms where the sender's clock was corrected.
    visitor_id, user_id: as the client sent them; at least one is set. The intake resolves them to the canonical visitor.
    dedupe_key: from `dedupe_key()`; None for an event that carries no ID to be recognised by.
    body_hash: from `body_hash()`; tells a repeat of the same event from another event under the same ID.
    columns: the other text columns of the warehouse's `events` that this event has (`path`, `country`, `utm_source`, ...).
    verified: of a provider's event: whether what the provider signed names its visitor or user.
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
    columns: Mapping[str, str] = EMPTY
    properties: Mapping[str, Any] = EMPTY
    verified: bool = False


class Status(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"


class Receipt(NamedTuple):
    """What became of an event, told once it is on disk. Of a duplicate: the IDs of the first event.

    visitor_id: None of a duplicate whose visitor was deleted since.
    """

    status: Status
    event_id: EventId
    visitor_id: VisitorId | None
    warnings: tuple[Notice, ...] = ()


def dedupe_key(website_id: WebsiteId, family: Family, client_id: str) -> bytes:
    """The internal deduplication key of the client's own ID for an event. Source: interface, section 4, events rule 3."""
    return blake2b(f"{website_id}\0{family}\0{client_id}".encode(), digest_size=16).digest()


@lru_cache(maxsize=1000)
def scope_tag(scope_id: ScopeId) -> int:
    """A number of 64 bits that stands for an identity scope beside a dedupe key. Stored: it may never change."""
    return int.from_bytes(blake2b(scope_id.encode(), digest_size=8).digest(), signed=True)


def body_hash(canonical: bytes) -> bytes:
    """The hash of an event as the client sent it. canonical: its JSON with sorted keys, without what a retry may change."""
    return blake2b(canonical, digest_size=16).digest()
