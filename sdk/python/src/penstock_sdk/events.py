"""Converts events to requests, which are queued until the server responds."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from time import time_ns
from typing import Any, Literal, NamedTuple, Required, TypedDict
from uuid import uuid4

JSON = str | int | float | bool | None | Sequence[Any] | Mapping[str, Any]

EVENTS, TRANSACTIONS = "/api/v1/events", "/api/v1/transactions"
TRACK, IDENTIFY = "/api/track", "/api/identify"
BATCHES = {EVENTS: f"{EVENTS}/batch", TRACK: TRACK}  # routes that accept several entries at once

ItemType = Literal["pageview", "screenview", "event", "transaction"]


class Entry(NamedTuple):
    """A queued request. path: path of the route."""

    path: str
    body: dict[str, Any]

    def dump(self) -> str:
        return json.dumps([self.path, self.body], separators=(",", ":"), allow_nan=False)

    @classmethod
    def load(cls, text: str) -> "Entry":
        path, body = json.loads(text)
        return cls(path, body)


class Refusal(NamedTuple):
    """An event that the server rejected; it is not sent again. errors: field, code and message."""

    body: Mapping[str, Any]
    errors: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        name = self.body.get("event") or self.body.get("name") or self.body.get("type", "identify")
        pairs = [(error.get("field") or "body", error.get("message")) for error in self.errors]
        faults = "; ".join(f"{field}: {message}" for field, message in pairs)
        return f"{name} was not stored. {faults}"


class EventFields(TypedDict, total=False):
    """Fields of an event. `user_id` or `visitor_id` is required. `timestamp` defaults to now."""

    user_id: str | int | None
    visitor_id: str | int | None
    properties: Mapping[str, JSON] | None
    event_id: str | int | None
    timestamp: datetime | str
    external_session_id: str | int | None
    country: str | None
    region: str | None


class TransactionFields(EventFields, total=False):
    """Fields of a transaction. An event with the same `transaction_id` is a duplicate.

    currency: ISO code, such as `EUR`.
    """

    transaction_id: str | int | None
    amount: float | None
    currency: str | None


class ItemFields(TypedDict, total=False):
    """Fields of an item. A page view needs `path` or `url`, a screen view needs `screen`, and other
    items need `name`.

    dedupe_key: lets the server recognise repeats of the item; random by default.
    """

    visitor_id: Required[str | int]
    path: str | None
    screen: str | None
    name: str | None
    properties: Mapping[str, JSON] | None
    timestamp: datetime | str
    session_id: str | int | None
    dedupe_key: str | int | None
    url: str | None
    referrer: str | None
    title: str | None
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    utm_content: str | None
    utm_term: str | None


def event_entry(path: str, website_id: str, event: str, fields: Mapping[str, Any]) -> Entry:
    """Create an entry with a time, and an ID by which the server recognises repeats."""
    event_id = fields.get("event_id") or (None if fields.get("transaction_id") else str(uuid4()))
    body = {"website_id": website_id, "event": event, **fields, "event_id": event_id}
    return _dated_entry(path, body)


def item_entry(website_id: str, item_type: ItemType, fields: ItemFields) -> Entry:
    """Like `event_entry`, for an item."""
    dedupe_key = fields.get("dedupe_key") or str(uuid4())
    body = {"website_id": website_id, "type": item_type, **fields, "dedupe_key": dedupe_key}
    return _dated_entry(TRACK, body)


def identify_entry(
    website_id: str, user_id: str | int, visitor_id: str | int, traits: JSON
) -> Entry:
    body = {"website_id": website_id, "user_id": user_id, "visitor_id": visitor_id}
    return Entry(IDENTIFY, named({**with_text_ids(body), "traits": traits}))


def _dated_entry(path: str, body: Mapping[str, Any]) -> Entry:
    body = with_text_ids(body)
    at = _time(body.get("timestamp"))
    if body.get("user_id") is None and body.get("visitor_id") is None:
        raise ValueError("user_id or visitor_id is required")
    return Entry(path, named({**body, "timestamp": at}))


_AHEAD_MS, _EPOCH = 1_000, datetime(1970, 1, 1, tzinfo=UTC)
_last_ms, _lock = 0, Lock()


def _next_time() -> datetime:
    """Return the current time, or a millisecond after the last event, so that events keep their
    order. Runs at most `_AHEAD_MS` ahead; if the clock was set back further, times start anew.
    """
    global _last_ms
    with _lock:
        now_ms = time_ns() // 1_000_000
        if 0 <= (ahead_ms := _last_ms - now_ms) <= _AHEAD_MS:
            now_ms += min(ahead_ms + 1, _AHEAD_MS)
        _last_ms = now_ms
    return _EPOCH + timedelta(milliseconds=now_ms)


def _time(value: object) -> datetime:
    """Return the time of an event; `_next_time` for None.

    Raises `TypeError` if the value is neither a datetime nor ISO 8601 text, and `ValueError` if it
    has no time zone.
    """
    if value is None:
        return _next_time()
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        at = None
    if not isinstance(at, datetime):
        raise TypeError(f"timestamp must be a datetime or ISO 8601 text, not {value!r:.100}")
    if at.tzinfo is None:
        raise ValueError("timestamp needs a time zone, such as datetime.now(UTC)")
    return at


_IDS = ("user_id", "visitor_id", "event_id", "transaction_id", "external_session_id")
_ITEM_IDS = ("session_id", "dedupe_key")


def with_text_ids(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with integer IDs, such as database IDs, converted to text."""
    return {
        name: str(value) if name in (*_IDS, *_ITEM_IDS) and type(value) is int else value
        for name, value in fields.items()
    }


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values under the API's names, without those that are None."""
    return {
        camel(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


def metadata(
    *,
    user_id: str | int | None = None,
    visitor_id: str | int | None = None,
    attempt: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return metadata for a payment provider's checkout, payment or subscription.

    attempt: the funnel's attempt property and the attempt's ID, such as `{"checkoutId": "c-1"}`.
    Raises `ValueError` if neither ID is given. Source: Penstock's docs/providers.md.
    """
    ids = {"userId": user_id, "visitorId": visitor_id}
    if not (known := {name: str(value) for name, value in ids.items() if value not in (None, "")}):
        raise ValueError("user_id or visitor_id is required")
    return {**(attempt or {}), **known}
