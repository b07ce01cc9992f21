"""Events of browsers and apps, from JSON to `NewEvent`."""

from collections.abc import Callable
from typing import Any

from penstock.accounts.model import Website, WebsiteKind
from penstock.base.errors import Fault, Invalid
from penstock.events.checking import Rule, checked, sized
from penstock.events.fields import Bounds, Moment, SentId, future_fault
from penstock.events.happening import Happening, has_its_name, name_and_columns
from penstock.events.model import Family, Kind, NewEvent, Source, dedupe_key
from penstock.events.useragent import user_agent_columns

FindWebsite = Callable[[str], Website | None]

CLOCK_SLACK_MS = 5_000
"""A sender's clock that differs by no more is believed: that much a request may take on its way."""


class TrackItem(Happening):
    """What happened in a browser or an app."""

    website_id: SentId
    visitor_id: SentId
    session_id: SentId | None = None
    timestamp: Moment | None = None
    sent_at: Moment | None = None
    dedupe_key: SentId | None = None


RULES: tuple[Rule, ...] = (has_its_name,)


def tracked_event(raw: Any, find: FindWebsite, bounds: Bounds, user_agent: str) -> NewEvent:
    """`Invalid` with every fault; an unknown website is one."""
    sent = checked(raw, TrackItem, RULES, bounds)
    website = find(sent.website_id)
    if website is None:
        raise unknown_website()
    source = Source.APP if website.kind is WebsiteKind.MOBILE else Source.BROWSER
    name, columns = name_and_columns(sent, bounds)
    if sent.session_id is not None:
        columns["session_id"] = sent.session_id
    occurred_at_ms = _occurred_at_ms(sent, bounds)
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


def unknown_website() -> Invalid:
    return Invalid([Fault("websiteId", "unknown_website", "There is no such website; its ID is in the tracking settings.")])


def _occurred_at_ms(sent: TrackItem, bounds: Bounds) -> int:
    """When it happened by the server's clock.

    The sender's clock is wrong by as much as `sentAt` differs from the time of receipt; beyond the slack, its timestamp is moved by that.
    The timestamp as sent stays in `stated_at`. Source: intake, time.
    """
    if sent.timestamp is None:
        return bounds.now_ms
    ahead_ms = 0 if sent.sent_at is None else sent.sent_at - bounds.now_ms
    at_ms = sent.timestamp if abs(ahead_ms) <= CLOCK_SLACK_MS else sent.timestamp - ahead_ms
    if broken := future_fault(at_ms, bounds):
        raise Invalid([Fault("timestamp", broken.code, broken.message)])
    if at_ms < 0:
        raise Invalid([Fault("timestamp", "before_1970", "Times before 1970 are not taken; sentAt moved this one there.")])
    return at_ms
