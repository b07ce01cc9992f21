"""A provider's event as the intake takes it: whom it is about, and which properties it has."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import json

from penstock.accounts.model import Website
from penstock.events.fields import Bounds, future_fault
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.properties import property_faults
from penstock.identity.model import is_placeholder
from penstock.providers.model import NotAnEvent, Provider, ProviderEvent

IDENTITY_KEYS = ("visitorId", "userId", "websiteId")
LEFT_OUT = "leftOut"
"""The property that tells which metadata broke a limit, as `key: code`."""

_MAX_TOLD_LEFT_OUT = 20
_RESERVED_BYTES = 8 * 1024
"""Of an event's size, kept for what is not metadata."""


class Whom(NamedTuple):
    """Whom metadata names. is_elsewhere: it names another website than the one that was addressed, so it names nobody here."""

    visitor_id: str | None = None
    user_id: str | None = None
    is_elsewhere: bool = False

    @property
    def is_named(self) -> bool:
        return any(sent_id is not None and not is_placeholder(sent_id) for sent_id in (self.visitor_id, self.user_id))


def whom(metadata: Any, website: Website, bounds: Bounds) -> Whom:
    if not isinstance(metadata, dict):
        return Whom()
    named_website = metadata.get("websiteId")
    if named_website not in (None, "", website.id):
        return Whom(is_elsewhere=True)
    return Whom(_sent_id(metadata.get("visitorId"), bounds), _sent_id(metadata.get("userId"), bounds))


def _sent_id(value: Any, bounds: Bounds) -> str | None:
    """An ID from metadata; a whole number is read as the text of it. None for what can be none."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**64 else value
    fits = isinstance(text, str) and text and "\x00" not in text and len(text.encode()) <= bounds.limits.max_id_bytes
    return text if fits else None


def new_event(event: ProviderEvent, provider: Provider, website: Website, named: Whom, otherwise: str, bounds: Bounds) -> NewEvent:
    """named: from `whom`. otherwise: the visitor that the event goes to when it names none. `NotAnEvent` when its time cannot be."""
    if event.occurred_at_ms < 0 or future_fault(event.occurred_at_ms, bounds):
        raise NotAnEvent("The event's time lies before 1970 or in the future.")
    has_meaning = event.name is not None and not named.is_elsewhere
    name = event.name if event.name is not None and has_meaning else f"provider.{event.type}"
    visitor_id = named.visitor_id if named.is_named else otherwise
    properties = _properties(event, named, bounds)
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind.TRANSACTION if has_meaning else Kind.PROVIDER,
        name=name,
        source=Source.PROVIDER,
        occurred_at_ms=event.occurred_at_ms,
        stated_at_ms=event.occurred_at_ms,
        received_at_ms=bounds.now_ms,
        visitor_id=visitor_id,
        user_id=named.user_id if named.is_named else None,
        # Of what was read, not of the body: providers count deliveries in it.
        body_hash=body_hash(json.encode([name, event.occurred_at_ms, named, properties], order="sorted")),
        dedupe_key=dedupe_key(website.id, Family.PROVIDERS, f"{provider}\0{event.id}"),
        properties=properties,
        verified=named.is_named,
    )


def _properties(event: ProviderEvent, named: Whom, bounds: Bounds) -> dict[str, Any]:
    """What the provider told, and the metadata that keeps the limits. A key that both have is the provider's; metadata's is renamed."""
    kept: dict[str, Any] = dict(event.told)
    left_out: list[str] = []
    room = bounds.limits.max_event_bytes - _RESERVED_BYTES
    keys = len(kept) + 1
    for key, value in _entries(event.metadata, left_out):
        if key in IDENTITY_KEYS and not named.is_elsewhere:
            if value not in (None, "") and key != "websiteId" and _sent_id(value, bounds) is None:
                left_out.append(f"{key}: not_an_id")
            continue
        faults = property_faults({key: value}, bounds.limits)
        if not faults:
            size, more_keys = len(json.encode({key: value})), _keys_in(value) + 1
            if keys + more_keys <= bounds.limits.max_property_keys and size <= room:
                kept[f"metadata.{key}" if key in event.told or key == LEFT_OUT else key] = value
                room, keys = room - size, keys + more_keys
                continue
        code = faults[0].code if faults else "too_large" if size > room else "too_many_keys"
        left_out.append(f"{key[:64]}: {code}")
    if left_out:
        kept[LEFT_OUT] = [*left_out[:_MAX_TOLD_LEFT_OUT], *_rest(len(left_out) - _MAX_TOLD_LEFT_OUT)]
    return kept


def _entries(metadata: Any, left_out: list[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(metadata, dict):
        return metadata.items()
    if metadata is not None:
        left_out.append("metadata: wrong_type")
    return ()


def _keys_in(value: Any) -> int:
    """Property keys below a value of a depth that was checked."""
    if isinstance(value, Mapping):
        return len(value) + sum(_keys_in(item) for item in value.values())
    return sum(_keys_in(item) for item in value) if isinstance(value, list) else 0


def _rest(count: int) -> list[str]:
    return [f"and {count} more"] if count > 0 else []
