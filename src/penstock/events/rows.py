"""Warehouse rows for events, each a JSON object."""

from typing import Any

from msgspec import json

from penstock.base.clock import iso
from penstock.base.ids import EventId, VisitorId
from penstock.base.scalar import property_columns, scalar_texts
from penstock.events.model import NewEvent
from penstock.identity.model import TraitsChange

EVENT_COLUMNS = (
    "website_id", "kind", "name", "source", "scope_id", "visitor_id", "user_id", "event_id",
    "client_event_id", "occurred_at", "stated_at", "received_at", "session_id",
    "external_session_id", "path", "url", "title", "referrer", "referrer_host", "country", "region",
    "device", "os", "browser", "utm_source", "utm_medium", "utm_campaign", "utm_content",
    "utm_term", "link", "link_method", "properties", "scalars", "hashes", "verified", "import_id",
)  # fmt: skip
"""Columns of `events` that the intake writes. Rows leave out empty columns."""

ALIAS_COLUMNS = ("scope_id", "visitor_id", "canonical_id", "version")

TRAIT_COLUMNS = ("scope_id", "visitor_id", "texts", "version")

CLICK_COLUMNS = (
    "website_id", "link_id", "link_revision", "clicked_at", "click_id", "answer", "bot",
    "bot_reason", "first_of_day", "platform", "os_major", "in_app", "referrer_host", "language",
    "country", "qr", "utm_source", "utm_medium", "utm_campaign", "token_hash",
)  # fmt: skip
"""Columns of `clicks`. `penstock.links` creates the rows."""


def event_row(
    event: NewEvent, event_id: EventId, visitor_id: VisitorId, batch_ms: int | None = None
) -> str:
    """Return an event's row as JSON.

    batch_ms: the event's time, if its position in a batch decides it.

    Times are ISO 8601, because the engine guesses whether numbers are seconds or milliseconds.
    """
    occurred_at_ms = event.occurred_at_ms if batch_ms is None else batch_ms
    stated_at_ms = event.stated_at_ms if batch_ms is None else batch_ms
    received_at = iso(event.received_at_ms)
    occurred_at = received_at if occurred_at_ms == event.received_at_ms else iso(occurred_at_ms)
    row: dict[str, Any] = {
        "website_id": event.website_id,
        "kind": event.kind,
        "name": event.name,
        "source": event.source,
        "scope_id": event.scope_id,
        "visitor_id": visitor_id,
        "event_id": event_id,
        "occurred_at": occurred_at,
        "stated_at": occurred_at if stated_at_ms == occurred_at_ms else iso(stated_at_ms),
        "received_at": received_at,
        **event.columns,
    }
    if event.user_id is not None:
        row["user_id"] = event.user_id
    if event.client_event_id is not None:
        row["client_event_id"] = event.client_event_id
    if event.import_id is not None:
        row["import_id"] = event.import_id
    if event.verified:
        row["verified"] = True
    if event.properties:
        row["properties"] = json.encode(event.properties).decode()
        row |= property_columns(event.properties)
    return json.encode(row).decode()


def traits_row(change: TraitsChange, version: int) -> str:
    """Return the row of a visitor's traits as JSON. It contains only scalars."""
    return json.encode(
        {
            "scope_id": change.scope_id,
            "visitor_id": change.visitor_id,
            "texts": scalar_texts(change.traits),
            "version": version,
        }
    ).decode()
