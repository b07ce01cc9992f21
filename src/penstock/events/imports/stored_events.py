"""Converts lines of type `stored`, the events in an export of Penstock, to `NewEvent`."""

from typing import Any

from penstock.accounts.model import Website
from penstock.events.fields import EventValidationContext
from penstock.events.imports.formats.schema import StoredLine
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.validation import canonical_json, validate

_COLUMNS = (
    "session_id", "external_session_id", "path", "url", "title", "referrer", "referrer_host",
    "country", "region", "device", "os", "browser", "utm_source", "utm_medium", "utm_campaign",
    "utm_content", "utm_term", "link", "link_method",
)  # fmt: skip


def read_stored_event(raw: Any, website: Website, context: EventValidationContext) -> NewEvent:
    """Return the event as it was stored, with its times and its source. Raises `Invalid`.

    A time of receipt in the future becomes the current time, so that a later request to delete the
    visitor always applies. The earlier event ID identifies the event. Its visitor and user are not
    linked again, because links may have changed since. An export has the current links as separate
    lines.
    """
    canonical = canonical_json(raw)
    item = validate(raw, StoredLine, (), context)
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind(item.kind),
        name=item.name,
        source=Source(item.source),
        occurred_at_ms=item.occurred_at,
        stated_at_ms=item.stated_at,
        received_at_ms=min(item.received_at, context.now_ms),
        visitor_id=item.visitor_id,
        user_id=item.user_id,
        body_hash=body_hash(canonical),
        dedupe_key=dedupe_key(website.id, Family.IMPORTS, f"\0stored\0{item.event_id}"),
        client_event_id=item.client_event_id,
        columns={name: value for name in _COLUMNS if (value := getattr(item, name)) is not None},
        properties=item.properties or {},
        verified=item.verified,
        is_public=False,
        links_user=False,
    )
