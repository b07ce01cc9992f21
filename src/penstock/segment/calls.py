"""Parses calls from Segment and RudderStack clients for the intake.

`docs/segment.md` documents the mapping.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.accounts.identity_secrets.service import IsSigned
from penstock.accounts.model import WebsiteKind
from penstock.base.errors import Fault, Invalid
from penstock.base.user_agent import MAX_CHARS, parse_user_agent
from penstock.events.device_clock import by_server_clock, clock_reading
from penstock.events.field_warnings import field_warnings
from penstock.events.fields import EventValidationContext, timestamp_ms
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.segment_fields import (
    EVENT_TYPES,
    NO_IDENTITY,
    PAGE_FIELDS,
    UTM,
    event_fields,
    part,
    require_type,
    text,
    user_fields,
)
from penstock.events.tracked_item import name_and_columns
from penstock.events.user_agent_columns import user_agent_columns
from penstock.events.validation import RawItem, Rule, canonical_json, validate
from penstock.http.schema import RuleBroken
from penstock.identity.model import Claim, StatedTraits
from penstock.identity.trust import claim_trust
from penstock.segment.model import Sender
from penstock.segment.schema import EventCall, UserCall

_CHANGES_WITH_RETRY = ("sentAt", "_metadata")
_SENT_NAMES = {
    "name": "event",
    "screen": "name",
    "visitorId": "previousId",
    "userHash": "context.userHash",
    **{field: f"context.campaign.{name}" for field, name in UTM.items()},
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
    call_type = require_type(raw)
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
    name, columns, text_warnings = name_and_columns(item)
    own_source = Source.APP if website.kind is WebsiteKind.MOBILE else Source.BROWSER
    user_agent = text(part(raw, "context").get("userAgent")) or context.user_agent
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
        warnings=field_warnings(fields) + text_warnings,
        is_public=not is_trusted,
        clock=clock,
        batch=limits.batch if item.timestamp is None else None,
    )


def _event_fields(raw: RawItem, sender: Sender) -> dict[str, Any]:
    """Return the fields of `EventCall` that were sent."""
    fields = event_fields(raw)
    if not sender.is_trusted:
        fields["sentAt"] = raw.get("sentAt")
        if sender.website.requires_signed_identities:
            del fields["userId"]  # the user ID is unsigned, so anyone could have sent it
    return {name: value for name, value in fields.items() if value not in (None, "")}


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
        yield Fault("anonymousId", "identity_required", NO_IDENTITY)


_EVENT_RULES: tuple[Rule, ...] = (_has_name, _has_identity)
# User calls


def _claim(raw: RawItem, context: CallContext) -> Claim | None:
    """Return the claim for an identify or alias call; None for an identify call without a user."""
    fields = user_fields(raw)
    if fields is None:
        return None
    call = validate(fields, UserCall, (), context.limits)
    website, is_backend = context.sender
    is_signed = None if call.user_hash is None else context.is_signed(call.user_id, call.user_hash)
    trust = claim_trust(website, is_backend=is_backend, is_signed=is_signed)
    traits = StatedTraits(call.traits, at_ms=_stated_ms(raw, context)) if call.traits else None
    return Claim(website.scope_id, call.visitor_id, call.user_id, traits, trust, website.id)


def _stated_ms(raw: RawItem, context: CallContext) -> int | None:
    """Return when a call was made, by the server's clock; None if its time is missing or invalid.

    A wrong time of a user call does not reject it, because its link needs no time.
    """
    now_ms = context.limits.now_ms
    stated_ms = _time_or_none(raw.get("timestamp") or raw.get("originalTimestamp"))
    if stated_ms is None:
        return None
    sent_ms = None if context.sender.is_trusted else _time_or_none(raw.get("sentAt"))
    return min(by_server_clock(stated_ms, clock_reading(sent_ms, None, now_ms)), now_ms)


def _time_or_none(sent: Any) -> int | None:
    try:
        return timestamp_ms(sent)
    except RuleBroken:
        return None


def _sent_name(field: str, raw: RawItem) -> str:
    """Return the name that a model's field has in the call."""
    first, dot, rest = field.partition(".")
    if first in PAGE_FIELDS:
        first = f"properties.{first}" if raw["type"] == "page" else f"context.page.{first}"
    return _SENT_NAMES.get(first, first) + dot + rest
