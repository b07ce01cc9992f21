"""Events as requests: what waits for an answer of the server."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict
from uuid import uuid4

JSON = str | int | float | bool | None | Sequence[Any] | Mapping[str, Any]

EVENTS, TRANSACTIONS, IDENTIFY = "/api/v1/events", "/api/v1/transactions", "/api/identify"
BATCH = f"{EVENTS}/batch"


class Entry(NamedTuple):
    """A request that waits. path: its route; entries of `EVENTS` are sent in batches."""

    path: str
    body: dict[str, Any]

    def dump(self) -> str:
        return json.dumps([self.path, self.body], separators=(",", ":"), allow_nan=False)

    @classmethod
    def load(cls, text: str) -> "Entry":
        path, body = json.loads(text)
        return cls(path, body)


class Refusal(NamedTuple):
    """The server refused an event, which is not sent again. errors: field, code and message."""

    body: Mapping[str, Any]
    errors: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        name = self.body.get("event", "identify")
        pairs = [(error.get("field") or "body", error.get("message")) for error in self.errors]
        faults = "; ".join(f"{field}: {message}" for field, message in pairs)
        return f"{name} was not stored. {faults}"


class EventFields(TypedDict, total=False):
    """Fields of an event. `user_id` or `visitor_id` is required; default of `timestamp`: now."""

    user_id: str | None
    visitor_id: str | None
    properties: Mapping[str, JSON] | None
    event_id: str | None
    timestamp: datetime
    external_session_id: str | None
    country: str | None
    region: str | None


class TransactionFields(EventFields, total=False):
    """A second transaction with the `transaction_id` is a duplicate. currency: such as `EUR`."""

    transaction_id: str | None
    amount: float | None
    currency: str | None


def event_entry(
    path: str, website_id: str, event: str, fields: TransactionFields | EventFields
) -> Entry:
    """An event with an ID, which makes a repeat a duplicate, and the time when it happened."""
    at = fields.get("timestamp") or datetime.now(UTC)
    if at.tzinfo is None:
        raise ValueError("timestamp needs a time zone, such as datetime.now(UTC)")
    if fields.get("user_id") is None and fields.get("visitor_id") is None:
        raise ValueError("user_id or visitor_id is required")
    event_id = fields.get("event_id") or (None if fields.get("transaction_id") else str(uuid4()))
    body = {"website_id": website_id, "event": event, **fields, "event_id": event_id}
    named = {camel(name): value for name, value in body.items() if value is not None}
    return Entry(path, {**named, "timestamp": at.isoformat()})


def identify_entry(website_id: str, user_id: str, visitor_id: str, traits: JSON) -> Entry:
    body: dict[str, Any] = {"websiteId": website_id, "userId": user_id, "visitorId": visitor_id}
    return Entry(IDENTIFY, body if traits is None else {**body, "traits": traits})


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


def metadata(
    *,
    user_id: str | None = None,
    visitor_id: str | None = None,
    attempt: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Metadata for a payment provider's checkout, payment or subscription.

    attempt: the funnel's attempt property and the attempt's ID, such as `{"checkoutId": "c-1"}`.
    ValueError without any ID. Source: docs/providers.md of Penstock.
    """
    ids = {"userId": user_id, "visitorId": visitor_id}
    if not (known := {name: value for name, value in ids.items() if value}):
        raise ValueError("user_id or visitor_id is required")
    return {**(attempt or {}), **known}
