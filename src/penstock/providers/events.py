"""Turns a provider's event into an event for the intake, with its visitor and properties."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import json

from penstock.accounts.model import Website
from penstock.base.event_limits import MAX_EVENT_BYTES, MAX_ID_BYTES, MAX_PROPERTY_KEYS
from penstock.base.payment_providers import Provider
from penstock.events.fields import EventValidationContext, future_error
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.properties import property_faults
from penstock.identity.model import is_placeholder
from penstock.providers.model import IDENTITY_KEYS, NotAnEvent, ProviderEvent

LEFT_OUT = "leftOut"
"""Name of the property that lists metadata entries over a limit, in the form `key: code`."""

_MAX_LEFT_OUT = 20
_RESERVED_BYTES = 8 * 1024
"""Bytes of an event that are reserved for everything except metadata."""


class CustomerIdentity(NamedTuple):
    """The customer's IDs from the metadata.

    is_elsewhere: whether the metadata names a different website from the URL. If so, the IDs are
    ignored.
    """

    visitor_id: str | None = None
    user_id: str | None = None
    is_elsewhere: bool = False

    @property
    def is_named(self) -> bool:
        """Whether one of the IDs identifies a visitor or user."""
        return any(
            sent_id is not None and not is_placeholder(sent_id)
            for sent_id in (self.visitor_id, self.user_id)
        )


def read_customer_identity(
    metadata: Any, website: Website, context: EventValidationContext
) -> CustomerIdentity:
    if not isinstance(metadata, dict):
        return CustomerIdentity()
    website_id = metadata.get("websiteId")
    if website_id not in (None, "", website.id):
        return CustomerIdentity(is_elsewhere=True)
    return CustomerIdentity(
        _sent_id(metadata.get("visitorId"), context), _sent_id(metadata.get("userId"), context)
    )


def _sent_id(value: Any, context: EventValidationContext) -> str | None:
    """Return the ID from the metadata, or None if it is invalid. Converts integers to strings."""
    text = (
        str(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**64
        else value
    )
    is_valid = (
        isinstance(text, str) and text and "\x00" not in text and len(text.encode()) <= MAX_ID_BYTES
    )
    return text if is_valid else None


def new_event(
    event: ProviderEvent,
    provider: Provider,
    website: Website,
    customer: CustomerIdentity,
    fallback_visitor_id: str,
    context: EventValidationContext,
) -> NewEvent:
    """Convert a provider's event into an event for the intake.

    Raises `NotAnEvent` if its time is before 1970 or in the future.

    customer: the result of `read_customer_identity`. fallback_visitor_id: the visitor to use if
    the metadata does not identify one.
    """
    if event.occurred_at_ms < 0 or future_error(event.occurred_at_ms, context):
        raise NotAnEvent("the event's time is before 1970 or in the future.")
    has_mapping = event.name is not None and not customer.is_elsewhere
    name = event.name if event.name is not None and has_mapping else f"provider.{event.type}"
    visitor_id = customer.visitor_id if customer.is_named else fallback_visitor_id
    properties = _properties(event, customer, context)
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind.TRANSACTION if has_mapping else Kind.PROVIDER,
        name=name,
        source=Source.PROVIDER,
        is_public=False,
        occurred_at_ms=event.occurred_at_ms,
        stated_at_ms=event.occurred_at_ms,
        received_at_ms=context.now_ms,
        visitor_id=visitor_id,
        user_id=customer.user_id if customer.is_named else None,
        # Hash the parsed fields, because the body contains a delivery count that changes.
        body_hash=body_hash(
            json.encode([name, event.occurred_at_ms, customer, properties], order="sorted")
        ),
        dedupe_key=dedupe_key(website.id, Family.PROVIDERS, f"{provider}\0{event.id}"),
        client_event_id=event.id,
        properties=properties,
        verified=customer.is_named,
    )


def _properties(
    event: ProviderEvent, customer: CustomerIdentity, context: EventValidationContext
) -> dict[str, Any]:
    """Combine the provider's properties with the metadata that is within the limits.

    If both contain the same key, the metadata's key becomes `metadata.KEY`.
    """
    properties: dict[str, Any] = dict(event.properties)
    left_out: list[str] = []
    bytes_left = MAX_EVENT_BYTES - _RESERVED_BYTES
    keys = len(properties) + 1
    for key, value in _entries(event.metadata, left_out):
        if key in IDENTITY_KEYS and not customer.is_elsewhere:
            if value not in (None, "") and key != "websiteId" and _sent_id(value, context) is None:
                left_out.append(f"{key}: not_an_id")
            continue
        faults = property_faults({key: value})
        size, more_keys = 0, 0
        if not faults:
            size, more_keys = len(json.encode({key: value})), _count_keys(value) + 1
            if keys + more_keys <= MAX_PROPERTY_KEYS and size <= bytes_left:
                is_taken = key in event.properties or key == LEFT_OUT
                properties[f"metadata.{key}" if is_taken else key] = value
                bytes_left, keys = bytes_left - size, keys + more_keys
                continue
        code = faults[0].code if faults else "too_large" if size > bytes_left else "too_many_keys"
        left_out.append(f"{key[:64]}: {code}")
    if left_out:
        properties[LEFT_OUT] = _shorten(left_out)
    return properties


def _entries(metadata: Any, left_out: list[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(metadata, dict):
        return metadata.items()
    if metadata is not None:
        left_out.append("metadata: wrong_type")
    return ()


def _count_keys(value: Any) -> int:
    """Count the property keys inside a value. The caller has already checked how deeply the value
    is nested.
    """
    if isinstance(value, Mapping):
        return len(value) + sum(_count_keys(item) for item in value.values())
    return sum(_count_keys(item) for item in value) if isinstance(value, list) else 0


def _shorten(left_out: list[str]) -> list[str]:
    more = len(left_out) - _MAX_LEFT_OUT
    return [*left_out[:_MAX_LEFT_OUT], *([f"and {more} more"] if more > 0 else [])]
