"""Parses calls from Segment and RudderStack clients for the intake.

`docs/segment.md` documents the mapping.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.accounts.identity_secrets.service import IsSigned
from penstock.accounts.model import WebsiteKind
from penstock.base.errors import Fault, Invalid
from penstock.base.user_agent import MAX_CHARS, parse_user_agent
from penstock.events.device_clock import by_server_clock, clock_reading
from penstock.events.field_warnings import field_warnings
from penstock.events.fields import EventValidationContext, number_or_none
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.server_events import transaction_properties
from penstock.events.tracked_item import name_and_columns
from penstock.events.user_agent_columns import user_agent_columns
from penstock.events.validation import RawItem, Rule, canonical_json, validate
from penstock.identity.model import Claim
from penstock.identity.trust import claim_trust
from penstock.segment.model import Sender
from penstock.segment.schema import EventCall, UserCall

EVENT_TYPES = ("track", "page", "screen")
TYPES = (*EVENT_TYPES, "identify", "alias", "group")

ORDER_NAMES = frozenset(("ordercompleted", "completedorder", "orderrefunded"))
"""Event names that count as transactions, in lower case and without spaces, underscores or
hyphens.
"""

_WITHOUT_SEPARATORS = str.maketrans("", "", " _-")

_CHANGES_WITH_RETRY = ("sentAt", "_metadata")
_PLACE = ("path", "url", "referrer", "title")
_UTM = {
    "utmSource": "source",
    "utmMedium": "medium",
    "utmCampaign": "name",
    "utmContent": "content",
    "utmTerm": "term",
}
_SENT_NAMES = {
    "name": "event",
    "screen": "name",
    "visitorId": "previousId",
    "userHash": "context.userHash",
    **{field: f"context.campaign.{name}" for field, name in _UTM.items()},
}
"""Maps the models' field names to the field names that senders use."""


class CallContext(NamedTuple):
    """Context for validating a call.

    user_agent: the request's user agent; empty for a trusted sender.
    """

    sender: Sender
    limits: EventValidationContext
    is_signed: IsSigned
    user_agent: str


def read_call(raw: Any, context: CallContext) -> NewEvent | Claim | None:
    """Parse a call into the event or claim to store, or None if there is nothing to store.

    Raises `Invalid` with all faults, using the sender's field names.
    """
    if not isinstance(raw, dict):
        raise Invalid([Fault("", "wrong_type", "Must be a JSON object.")])
    canonical = canonical_json(
        {name: value for name, value in raw.items() if name not in _CHANGES_WITH_RETRY}
    )
    call_type = raw.get("type")
    if call_type not in TYPES:
        raise Invalid([Fault("type", "not_one_of", f"Must be one of {', '.join(TYPES)}.")])
    if call_type == "group":
        return None
    try:
        if call_type in EVENT_TYPES:
            return _event(raw, canonical, context)
        return _claim(raw, context)
    except Invalid as error:
        faults = [replace(fault, field=_sent_name(fault.field, raw)) for fault in error.faults]
        raise Invalid(faults, more_faults=error.more_faults) from None


# Event calls


def _event(raw: RawItem, canonical: bytes, context: CallContext) -> NewEvent:
    (website, is_trusted), limits = context.sender, context.limits
    fields = _event_fields(raw, context.sender)
    item = validate(fields, EventCall, _EVENT_RULES, limits, canonical)
    name, columns = name_and_columns(item)
    own_source = Source.APP if website.kind is WebsiteKind.MOBILE else Source.BROWSER
    user_agent = _text(_part(raw, "context").get("userAgent")) or context.user_agent
    columns |= user_agent_columns(parse_user_agent(user_agent[:MAX_CHARS]), own_source)
    stated_at_ms, clock = limits.now_ms, None
    if item.timestamp is not None:
        stated_at_ms = item.timestamp
        clock = clock_reading(item.sent_at, None, limits.now_ms)
    family = Family.SEGMENT if is_trusted else Family.SEGMENT_PUBLIC
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind(item.type),
        name=name,
        source=Source.SERVER if is_trusted else own_source,
        occurred_at_ms=by_server_clock(stated_at_ms, clock),
        stated_at_ms=stated_at_ms,
        received_at_ms=limits.now_ms,
        visitor_id=item.anonymous_id,
        user_id=item.user_id,
        body_hash=body_hash(canonical),
        dedupe_key=None
        if item.message_id is None
        else dedupe_key(website.id, family, item.message_id),
        client_event_id=item.message_id,
        columns=columns,
        properties=item.properties or {},
        warnings=field_warnings(fields),
        is_public=not is_trusted,
        clock=clock,
    )


def _event_fields(raw: RawItem, sender: Sender) -> dict[str, Any]:
    """Return the fields of `EventCall` that were sent."""
    campaign = _part(_part(raw, "context"), "campaign")
    fields = {
        **_kind_and_name(raw),
        **_place(raw),
        **{field: _text(campaign.get(name)) for field, name in _UTM.items()},
        **_ids(raw, "messageId", "anonymousId", "userId"),
        "properties": _properties(raw),
        "timestamp": raw.get("timestamp") or raw.get("originalTimestamp"),
    }
    if not sender.is_trusted:
        fields["sentAt"] = raw.get("sentAt")
        if sender.website.requires_signed_identities:
            del fields["userId"]  # the user ID is unsigned, so anyone could have sent it
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _kind_and_name(raw: RawItem) -> dict[str, Any]:
    match raw["type"]:
        case "page":
            return {"type": "pageview"}
        case "screen":
            name = raw.get("name") or _part(raw, "properties").get("name")
            return {"type": "screenview", "screen": name}
    return {"type": "transaction" if _is_order(raw) else "event", "name": raw.get("event")}


def _place(raw: RawItem) -> dict[str, str | None]:
    """Return path, URL, referrer and title, including usable values that clients add
    automatically.
    """
    page = _part(_part(raw, "context"), "page")
    place = {name: _text(page.get(name)) for name in _PLACE}
    if not (place["path"] or "").startswith("/"):
        place["path"] = None  # the value is not a URL path, for example a file name
    if raw["type"] == "page":
        own = _part(raw, "properties")
        place |= {name: text for name in _PLACE if (text := _text(own.get(name)))}
    return place


def _properties(raw: RawItem) -> Any:
    """Return the call's properties, with transaction properties added and page fields removed."""
    properties = raw.get("properties")
    if not isinstance(properties, dict):
        return properties
    if raw["type"] == "page":
        names = {name: raw[name] for name in ("name", "category") if _text(raw.get(name))}
        return names | {
            name: value
            for name, value in properties.items()
            if name not in _PLACE or not isinstance(value, str)
        }
    return _order_properties(properties) if _is_order(raw) else properties


def _is_order(raw: RawItem) -> bool:
    """Whether the call is a track call for a transaction, judging by its event name."""
    event = raw.get("event")
    if raw["type"] != "track" or not isinstance(event, str):
        return False
    return event.translate(_WITHOUT_SEPARATORS).casefold() in ORDER_NAMES


def _order_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Add transaction properties, without overwriting properties from the sender."""
    amounts = (number_or_none(properties.get(name)) for name in ("revenue", "total"))
    amount = next((value for value in amounts if value is not None), None)
    order_id = _ids(properties, "order_id")["order_id"]
    return {**transaction_properties({}, amount, None, order_id), **properties}


def _has_name(fields: RawItem) -> Iterator[Fault]:
    match fields.get("type"):
        case "pageview" if "path" not in fields and "url" not in fields:
            message = "A page call needs properties.path or properties.url, or context.page."
            yield Fault("path", "required", message)
        case "screenview" if "screen" not in fields:
            yield Fault("screen", "required", "A screen call needs the name of the screen.")
        case "event" if "name" not in fields:
            yield Fault("name", "required", "A track call needs the name of the event.")


def _has_identity(fields: RawItem) -> Iterator[Fault]:
    if "anonymousId" not in fields and "userId" not in fields:
        yield Fault("anonymousId", "identity_required", _NO_IDENTITY)


_EVENT_RULES: tuple[Rule, ...] = (_has_name, _has_identity)
_NO_IDENTITY = (
    "Send anonymousId or userId, or both. With a public write key, a website that requires signed "
    "user IDs needs anonymousId."
)


# User calls


def _claim(raw: RawItem, context: CallContext) -> Claim | None:
    """Return the claim for an identify or alias call; None for an identify call without a user."""
    ids = _ids(raw, "anonymousId", "userId", "previousId")
    visitor_id = ids["previousId" if raw["type"] == "alias" else "anonymousId"]
    if raw["type"] == "alias" and visitor_id is None:
        raise Invalid([Fault("visitorId", "required", "An alias call needs previousId.")])
    if raw["type"] == "identify" and ids["userId"] is None:
        if visitor_id is None:
            raise Invalid([Fault("anonymousId", "identity_required", _NO_IDENTITY)])
        return None
    fields = {
        "visitorId": visitor_id,
        "userId": ids["userId"],
        "userHash": _part(raw, "context").get("userHash"),
    }
    if raw["type"] == "identify":
        fields["traits"] = raw.get("traits") or _part(raw, "context").get("traits") or None
    call = validate(
        {name: value for name, value in fields.items() if value is not None},
        UserCall,
        (),
        context.limits,
    )
    website, is_backend = context.sender
    is_signed = None if call.user_hash is None else context.is_signed(call.user_id, call.user_hash)
    trust = claim_trust(website, is_backend=is_backend, is_signed=is_signed)
    return Claim(website.scope_id, call.visitor_id, call.user_id, call.traits, trust, website.id)


# Parts of a call


def _part(raw: RawItem, name: str) -> RawItem:
    """Return the object in a field, or an empty object if the field contains anything else."""
    part = raw.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _ids(raw: RawItem, *names: str) -> dict[str, Any]:
    """Return the IDs in these fields as strings.

    Clients may send numbers, or an empty string if they have no ID.
    """
    ids = {name: raw.get(name) for name in names}
    return {
        name: str(value) if type(value) is int else None if value == "" else value
        for name, value in ids.items()
    }


def _sent_name(field: str, raw: RawItem) -> str:
    """Return the name that a model's field has in the call."""
    first, dot, rest = field.partition(".")
    if first in _PLACE:
        first = f"properties.{first}" if raw["type"] == "page" else f"context.page.{first}"
    return _SENT_NAMES.get(first, first) + dot + rest
