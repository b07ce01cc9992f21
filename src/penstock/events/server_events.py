"""Converts events from trusted backends from JSON to `NewEvent`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.accounts.model import Website
from penstock.base.errors import Fault
from penstock.events.field_warnings import country_warnings, field_warnings
from penstock.events.fields import EventValidationContext
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.plain_items import plain_text
from penstock.events.schema import ServerEvent, TransactionEvent
from penstock.events.validation import RawItem, Rule, canonical_json, validate
from penstock.identity.model import Notice

OwnedWebsite = Callable[[str], Website]
"""Finds a website by ID. Raises `Unauthorized` if it does not belong to the caller."""


def has_one_event_name(raw: RawItem) -> Iterator[Fault]:
    event, name = raw.get("event"), raw.get("name")
    if event is None and name is None:
        yield Fault("event", "required", "This field is required.")
    elif event is not None and name is not None and event != name:
        yield Fault("name", "alias_differs", "name is an alias of event; send one of them.")


def has_identity(raw: RawItem) -> Iterator[Fault]:
    if raw.get("visitorId") is None and raw.get("userId") is None:
        for field in ("visitorId", "userId"):
            yield Fault(field, "identity_required", "Send visitorId or userId, or both.")


def has_legacy_identity(raw: RawItem) -> Iterator[Fault]:
    yield from has_identity(raw)
    visitor_id, user_id = raw.get("visitorId"), raw.get("userId")
    if visitor_id is not None and user_id is not None and str(visitor_id) != str(user_id):
        yield Fault(
            "userId",
            "identity_ambiguous",
            "The legacy contract reads visitorId as the user; send userId alone instead.",
        )


def has_no_session_id(raw: RawItem) -> Iterator[Fault]:
    if "sessionId" in raw:
        yield Fault(
            "sessionId",
            "session_id_not_accepted",
            "sessionId is not accepted; send your own session ID as externalSessionId.",
        )


TRANSACTION_FIELDS = ("amount", "currency", "transactionId")


def has_transaction_fields_once(raw: RawItem) -> Iterator[Fault]:
    properties = raw.get("properties")
    if not isinstance(properties, dict):
        return
    for field in TRANSACTION_FIELDS:
        if field in properties:
            message = f"Send {field} beside properties, not in them."
            yield Fault(f"properties.{field}", "given_twice", message)


def transaction_properties(
    properties: Mapping[str, Any] | None,
    amount: float | None,
    currency: str | None,
    transaction_id: str | None,
) -> dict[str, Any]:
    """Return the properties with the transaction's fields added, for filters and breakdowns."""
    fields = {"amount": amount, "currency": currency, "transactionId": transaction_id}
    sent_fields = {name: value for name, value in fields.items() if value is not None}
    return {**(properties or {}), **sent_fields}


EVENT_RULES: tuple[Rule, ...] = (has_one_event_name, has_no_session_id, has_identity)
LEGACY_RULES: tuple[Rule, ...] = (has_one_event_name, has_no_session_id, has_legacy_identity)


def plain_server_event(
    body: bytes, find_owned: Callable[[str], Website | None], context: EventValidationContext
) -> NewEvent | None:
    """Return the event in a body that is plain; None for any other body, also for one with faults.

    find_owned: returns a website of the caller; None if only the full validation can find it.
    """
    if (plain := plain_text(body, ServerEvent, context)) is None:
        return None
    item, canonical = plain
    has_one_name = (item.event is None) != (item.name is None)
    has_identity = item.visitor_id is not None or item.user_id is not None
    website = find_owned(item.website_id)
    if not has_one_name or not has_identity or website is None:
        return None
    return _new_event(
        item,
        body_hash(canonical),
        website,
        context,
        kind=Kind.EVENT,
        family=Family.EVENTS,
        client_id=item.event_id,
        properties=item.properties or {},
        warnings=country_warnings(item.country),
        legacy=False,
    )


def server_event(
    raw: Any,
    owned_website: OwnedWebsite,
    context: EventValidationContext,
    *,
    legacy: bool = False,
) -> NewEvent:
    """Validate an event.

    legacy: whether `visitorId` means the user. Source: interface, events rule 5.

    Raises `Invalid` with every fault, and `Unauthorized` if the website belongs to another
    workspace.
    """
    canonical = canonical_json(raw)
    item = validate(raw, ServerEvent, LEGACY_RULES if legacy else EVENT_RULES, context, canonical)
    return _new_event(
        item,
        body_hash(canonical),
        owned_website(item.website_id),
        context,
        kind=Kind.EVENT,
        family=Family.EVENTS,
        client_id=item.event_id,
        properties=item.properties or {},
        warnings=field_warnings(raw),
        legacy=legacy,
    )


def transaction(
    raw: Any,
    owned_website: OwnedWebsite,
    context: EventValidationContext,
    *,
    legacy: bool = False,
) -> NewEvent:
    """Like `server_event`, but amount, currency and transaction ID become properties."""
    canonical = canonical_json(raw)
    rules = (*(LEGACY_RULES if legacy else EVENT_RULES), has_transaction_fields_once)
    item = validate(raw, TransactionEvent, rules, context, canonical)
    return _new_event(
        item,
        body_hash(canonical),
        owned_website(item.website_id),
        context,
        kind=Kind.TRANSACTION,
        family=Family.TRANSACTIONS,
        client_id=item.transaction_id or item.event_id,
        properties=transaction_properties(
            item.properties, item.amount, item.currency, item.transaction_id
        ),
        warnings=field_warnings(raw),
        legacy=legacy,
    )


def _new_event(
    item: ServerEvent,
    content: bytes,
    website: Website,
    context: EventValidationContext,
    *,
    kind: Kind,
    family: Family,
    client_id: str | None,
    properties: Mapping[str, Any],
    warnings: tuple[Notice, ...],
    legacy: bool,
) -> NewEvent:
    occurred_at_ms = context.now_ms if item.timestamp is None else item.timestamp
    columns = {
        name: value
        for name, value in (
            ("external_session_id", item.external_session_id),
            ("country", item.country),
            ("region", item.region),
        )
        if value is not None
    }
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=kind,
        name=item.event or item.name or "",
        source=Source.SERVER,
        occurred_at_ms=occurred_at_ms,
        stated_at_ms=occurred_at_ms,
        received_at_ms=context.now_ms,
        visitor_id=None if legacy else item.visitor_id,
        user_id=(item.visitor_id or item.user_id) if legacy else item.user_id,
        body_hash=content,
        dedupe_key=None if client_id is None else dedupe_key(website.id, family, client_id),
        client_event_id=client_id,
        columns=columns,
        properties=properties,
        warnings=warnings,
        dropped_before=item.dropped_before or 0,
        is_public=False,
        batch=context.batch if item.timestamp is None else None,
    )
