"""Converts events from browsers and apps from JSON to `NewEvent`."""

from collections.abc import Iterator
from typing import Any

from penstock.accounts.model import WebsiteKind
from penstock.base.errors import Fault
from penstock.base.user_agent import UserAgent
from penstock.events.device_clock import by_server_clock, clock_reading
from penstock.events.field_warnings import field_warnings
from penstock.events.fields import EventValidationContext, require_own_website
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.plain_items import plain_text
from penstock.events.schema import TrackItem
from penstock.events.server_events import TRANSACTION_FIELDS
from penstock.events.tracked_item import (
    has_name_for_type,
    has_only_name_for_type,
    name_and_columns,
)
from penstock.events.user_agent_columns import user_agent_columns
from penstock.events.validation import RawItem, Rule, canonical_json, validate
from penstock.identity.model import Notice


def _has_no_transaction_fields(raw: RawItem) -> Iterator[Fault]:
    for field in TRANSACTION_FIELDS:
        if field in raw:
            yield Fault(field, "unknown_field", f"An item has no {field}; put it into properties.")


def _has_no_user(raw: RawItem) -> Iterator[Fault]:
    if "userId" in raw:
        message = (
            "/api/track accepts no userId. Call POST /api/identify with visitorId and userId once, "
            "at login; the visitor's events then belong to the user."
        )
        yield Fault("userId", "unknown_field", message)


_CLOCK_FIELDS = frozenset(("sentAt", "clockOffset"))

RULES: tuple[Rule, ...] = (has_name_for_type, _has_no_transaction_fields, _has_no_user)


def tracked_event(
    raw: Any,
    context: EventValidationContext,
    user_agent: UserAgent,
    *,
    is_public: bool | None = None,
) -> NewEvent:
    """Validate an item.

    is_public: whether the item came without a key; by default, whether the context has no caller.

    Raises `Invalid` with every fault, including an unknown website, and `Unauthorized` if the
    website and the key belong to different workspaces.
    """
    if is_public is None:
        is_public = context.caller is None
    # A retry with a different sentAt or clockOffset is the same event.
    has_clock = isinstance(raw, dict) and not _CLOCK_FIELDS.isdisjoint(raw)
    canonical = canonical_json(
        {name: raw[name] for name in raw if name not in _CLOCK_FIELDS} if has_clock else raw
    )
    item = validate(raw, TrackItem, RULES, context, canonical)
    return _new_event(item, canonical, context, user_agent, is_public, field_warnings(raw))


def plain_tracked_event(
    body: bytes, context: EventValidationContext, user_agent: UserAgent
) -> NewEvent | None:
    """Return the event in a body that is plain; None for any other body, also for one with faults.

    Raises the same errors as `tracked_event` about the website.
    """
    if (plain := plain_text(body, TrackItem, context)) is None:
        return None
    item, canonical = plain
    has_clock = item.sent_at is not None or item.clock_offset is not None
    if has_clock or not has_only_name_for_type(item):
        return None
    return _new_event(item, canonical, context, user_agent, context.caller is None, ())


def _new_event(
    item: TrackItem,
    canonical: bytes,
    context: EventValidationContext,
    user_agent: UserAgent,
    is_public: bool,
    warnings: tuple[Notice, ...],
) -> NewEvent:
    """Return the event of a valid item. canonical: its JSON, without the sender's clock."""
    website = context.find_website(item.website_id)
    assert website is not None  # `KnownWebsite` guarantees this.
    require_own_website(website, context)
    source = Source.APP if website.kind is WebsiteKind.MOBILE else Source.BROWSER
    name, columns, text_warnings = name_and_columns(item)
    if item.session_id is not None:
        columns["session_id"] = item.session_id
    stated_at_ms, clock = context.now_ms, None
    if item.timestamp is not None:
        stated_at_ms = item.timestamp
        clock = clock_reading(item.sent_at, item.clock_offset, context.now_ms)
    own_key = earlier_key = None
    if item.dedupe_key is not None:
        own_key = dedupe_key(website.id, Family.TRACK, item.dedupe_key)
        if not is_public:
            earlier_key = own_key
            own_key = dedupe_key(website.id, Family.TRACK_KEYED, item.dedupe_key)
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind(item.type),
        name=name,
        source=source,
        occurred_at_ms=by_server_clock(stated_at_ms, clock),
        stated_at_ms=stated_at_ms,
        received_at_ms=context.now_ms,
        visitor_id=item.visitor_id,
        user_id=None,
        body_hash=body_hash(canonical),
        dedupe_key=own_key,
        earlier_dedupe_key=earlier_key,
        client_event_id=item.dedupe_key,
        columns=columns | user_agent_columns(user_agent, source),
        properties=item.properties or {},
        warnings=warnings + text_warnings,
        dropped_before=item.dropped_before or 0,
        is_public=is_public,
        clock=clock,
        batch=context.batch if item.timestamp is None else None,
    )
