"""Events of trusted backends, from JSON to `NewEvent`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.accounts.model import Website
from penstock.base.errors import Fault
from penstock.events.checking import Rule, Sent, checked, sized
from penstock.events.fields import Bounds, Currency, EventName, Number, PastMoment, Properties, SentId
from penstock.events.model import Family, Kind, NewEvent, Source, dedupe_key
from penstock.http.schema import Input

OwnedWebsite = Callable[[str], Website]
"""The caller's website of an ID; raises `Unauthorized` when it is not the caller's."""


class ServerEvent(Input):
    """A typed event. `name` is an alias of `event`; at least one of `visitorId` and `userId` is needed."""

    website_id: SentId
    visitor_id: SentId | None = None
    user_id: SentId | None = None
    external_session_id: SentId | None = None
    event: EventName | None = None
    name: EventName | None = None
    event_id: SentId | None = None
    properties: Properties | None = None
    timestamp: PastMoment | None = None
    country: EventName | None = None
    region: EventName | None = None


class TransactionEvent(ServerEvent):
    """A transaction: an event with an amount. `transactionId` recognises a repeat; without one, `eventId` does."""

    transaction_id: SentId | None = None
    amount: Number | None = None
    currency: Currency | None = None


def names_one_event(sent: Sent) -> Iterator[Fault]:
    event, name = sent.get("event"), sent.get("name")
    if event is None and name is None:
        yield Fault("event", "required", "This field is required.")
    elif event is not None and name is not None and event != name:
        yield Fault("name", "alias_differs", "name is an alias of event; send one of them.")


def says_who(sent: Sent) -> Iterator[Fault]:
    if sent.get("visitorId") is None and sent.get("userId") is None:
        yield Fault("visitorId", "identity_required", "Send visitorId or userId, or both.")


def says_who_by_legacy_contract(sent: Sent) -> Iterator[Fault]:
    yield from says_who(sent)
    visitor_id, user_id = sent.get("visitorId"), sent.get("userId")
    if visitor_id is not None and user_id is not None and visitor_id != user_id:
        yield Fault("userId", "identity_ambiguous", "The legacy contract reads visitorId as the user; send userId alone instead.")


def takes_no_session_id(sent: Sent) -> Iterator[Fault]:
    if "sessionId" in sent:
        yield Fault("sessionId", "session_id_not_accepted", "There is no sessionId here; send your own session ID as externalSessionId.")


TRANSACTION_FIELDS = ("amount", "currency", "transactionId")


def keeps_transaction_fields_apart(sent: Sent) -> Iterator[Fault]:
    properties = sent.get("properties")
    if not isinstance(properties, dict):
        return
    for field in TRANSACTION_FIELDS:
        if field in properties:
            yield Fault(f"properties.{field}", "given_twice", f"Send {field} beside properties, not in them.")


EVENT_RULES: tuple[Rule, ...] = (names_one_event, takes_no_session_id, says_who)
LEGACY_RULES: tuple[Rule, ...] = (names_one_event, takes_no_session_id, says_who_by_legacy_contract)


def server_event(raw: Any, owned: OwnedWebsite, bounds: Bounds, *, legacy: bool = False) -> NewEvent:
    """`Invalid` with every fault, `Unauthorized` for a foreign website. legacy: visitorId is the user (interface, events rule 5)."""
    sent = checked(raw, ServerEvent, LEGACY_RULES if legacy else EVENT_RULES, bounds)
    return _new_event(sent, raw, owned, bounds, Kind.EVENT, Family.EVENTS, sent.event_id, sent.properties or {}, legacy)


def transaction(raw: Any, owned: OwnedWebsite, bounds: Bounds, *, legacy: bool = False) -> NewEvent:
    """As `server_event`. Amount, currency and transaction ID become properties, for filters and breakdowns."""
    rules = LEGACY_RULES if legacy else EVENT_RULES
    sent = checked(raw, TransactionEvent, (*rules, keeps_transaction_fields_apart), bounds)
    told = {"amount": sent.amount, "currency": sent.currency, "transactionId": sent.transaction_id}
    properties = {**(sent.properties or {}), **{name: value for name, value in told.items() if value is not None}}
    client_id = sent.transaction_id or sent.event_id
    return _new_event(sent, raw, owned, bounds, Kind.TRANSACTION, Family.TRANSACTIONS, client_id, properties, legacy)


def _new_event(
    sent: ServerEvent,
    raw: Mapping[str, Any],
    owned: OwnedWebsite,
    bounds: Bounds,
    kind: Kind,
    family: Family,
    client_id: str | None,
    properties: Mapping[str, Any],
    legacy: bool,
) -> NewEvent:
    website = owned(sent.website_id)
    occurred_at_ms = bounds.now_ms if sent.timestamp is None else sent.timestamp
    columns = {
        name: value
        for name, value in (("external_session_id", sent.external_session_id), ("country", sent.country), ("region", sent.region))
        if value is not None
    }
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=kind,
        name=sent.event or sent.name or "",
        source=Source.SERVER,
        occurred_at_ms=occurred_at_ms,
        stated_at_ms=occurred_at_ms,
        received_at_ms=bounds.now_ms,
        visitor_id=None if legacy else sent.visitor_id,
        user_id=(sent.visitor_id or sent.user_id) if legacy else sent.user_id,
        body_hash=sized(raw, bounds),
        dedupe_key=None if client_id is None else dedupe_key(website.id, family, client_id),
        columns=columns,
        properties=properties,
    )
