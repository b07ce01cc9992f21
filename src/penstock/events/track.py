"""Events of browsers and apps, from JSON to `NewEvent`."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationInfo, field_validator

from penstock.accounts.model import WebsiteKind
from penstock.base.errors import Fault
from penstock.events.checking import Rule, Sent, checked, sized
from penstock.events.fields import Bounds, KnownWebsite, Moment, SentId, future_fault
from penstock.events.happening import Happening, has_its_name, name_and_columns
from penstock.events.model import Family, Kind, NewEvent, Source, dedupe_key
from penstock.events.server import TRANSACTION_FIELDS
from penstock.events.useragent import user_agent_columns
from penstock.http.schema import RuleBroken

CLOCK_SLACK_MS = 5_000
"""A sender's clock that differs by no more is believed: that much a request may take on its way."""


class TrackItem(Happening):
    """What happened in a browser or an app."""

    website_id: KnownWebsite
    visitor_id: SentId
    session_id: SentId | None = None
    sent_at: Moment | None = None
    timestamp: Moment | None = None
    dedupe_key: SentId | None = None

    @field_validator("timestamp")
    @classmethod
    def _is_no_future(cls, stated_ms: int | None, info: ValidationInfo[Bounds]) -> int | None:
        if stated_ms is None or "sent_at" not in info.data:  # sentAt is at fault itself
            return stated_ms
        at_ms = _by_our_clock(stated_ms, info.data["sent_at"], info.context.now_ms)
        broken = future_fault(at_ms, info.context)
        if broken and at_ms != stated_ms:
            raise RuleBroken(broken.code, "sentAt moved this time into the future; it must be the sender's clock at the time of sending.")
        if broken:
            raise broken
        if at_ms < 0:
            raise RuleBroken("before_1970", "Times before 1970 are not taken; sentAt moved this one there.")
        return stated_ms


def _keeps_amounts_in_properties(sent: Sent) -> Iterator[Fault]:
    for field in TRANSACTION_FIELDS:
        if field in sent:
            yield Fault(field, "unknown_field", f"An item has no {field}; put it into properties.")


RULES: tuple[Rule, ...] = (has_its_name, _keeps_amounts_in_properties)


def tracked_event(raw: Any, bounds: Bounds, user_agent: str) -> NewEvent:
    """`Invalid` with every fault; an unknown website is one."""
    sent = checked(raw, TrackItem, RULES, bounds)
    website = bounds.find_website(sent.website_id)
    assert website is not None  # it was just found
    source = Source.APP if website.kind is WebsiteKind.MOBILE else Source.BROWSER
    name, columns = name_and_columns(sent)
    if sent.session_id is not None:
        columns["session_id"] = sent.session_id
    occurred_at_ms = bounds.now_ms if sent.timestamp is None else _by_our_clock(sent.timestamp, sent.sent_at, bounds.now_ms)
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind(sent.type),
        name=name,
        source=source,
        occurred_at_ms=occurred_at_ms,
        stated_at_ms=occurred_at_ms if sent.timestamp is None else sent.timestamp,
        received_at_ms=bounds.now_ms,
        visitor_id=sent.visitor_id,
        user_id=None,
        # A retry says anew when it was sent; that makes it no other event.
        body_hash=sized({name: value for name, value in raw.items() if name != "sentAt"}, bounds),
        dedupe_key=None if sent.dedupe_key is None else dedupe_key(website.id, Family.TRACK, sent.dedupe_key),
        columns=columns | user_agent_columns(user_agent, source),
        properties=sent.properties or {},
    )


def _by_our_clock(stated_ms: int, sent_at_ms: int | None, now_ms: int) -> int:
    """When it happened by the server's clock.

    The sender's clock is wrong by as much as `sentAt` differs from the time of receipt; beyond the slack, its timestamp is moved by that.
    The timestamp as sent stays in `stated_at`. Source: intake, time.
    """
    ahead_ms = 0 if sent_at_ms is None else sent_at_ms - now_ms
    return stated_ms if abs(ahead_ms) <= CLOCK_SLACK_MS else stated_ms - ahead_ms
