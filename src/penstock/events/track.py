"""Events of browsers and apps, from JSON to `NewEvent`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from penstock.accounts.model import Website, WebsiteKind
from penstock.base.errors import Fault, Invalid
from penstock.base.paths import page_path
from penstock.events.checking import Rule, Sent, checked, sized
from penstock.events.fields import Bounds, EventName, Moment, PagePath, Properties, SentId, Text, future_fault
from penstock.events.model import Family, Kind, NewEvent, Source, dedupe_key
from penstock.events.useragent import user_agent_columns
from penstock.http.schema import Input

FindWebsite = Callable[[str], Website | None]

CLOCK_SLACK_MS = 5_000
"""A sender's clock that differs by no more is believed: that much a request may take on its way."""

_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_NAME_FIELDS: Mapping[str, str] = {"pageview": "path", "screenview": "screen", "event": "name", "transaction": "name"}
"""The field that carries the name of each type of item."""


class TrackItem(Input):
    """What happened in a browser or an app. A pageview has `path` (or `url`), a screen view `screen`, the others `name`."""

    type: Literal["pageview", "screenview", "event", "transaction"]
    website_id: SentId
    visitor_id: SentId
    session_id: SentId | None = None
    path: PagePath | None = None
    screen: EventName | None = None
    name: EventName | None = None
    timestamp: Moment | None = None
    sent_at: Moment | None = None
    dedupe_key: SentId | None = None
    properties: Properties | None = None
    url: Text | None = None
    referrer: Text | None = None
    title: Text | None = None
    utm_source: Text | None = None
    utm_medium: Text | None = None
    utm_campaign: Text | None = None
    utm_content: Text | None = None
    utm_term: Text | None = None


def has_its_name(sent: Sent) -> Iterator[Fault]:
    kind = sent.get("type")
    field = _NAME_FIELDS.get(kind) if isinstance(kind, str) else None
    if field is None:
        return
    if sent.get(field) is None and not (field == "path" and sent.get("url") is not None):
        yield Fault(field, "required", f"An item of type {kind} needs {field}.")
    for other in ("screen", "name"):
        if other != field and sent.get(other) is not None:
            yield Fault(other, "not_for_type", f"An item of type {kind} has no {other}; its name goes into {field}.")


RULES: tuple[Rule, ...] = (has_its_name,)


def tracked_event(raw: Any, find: FindWebsite, bounds: Bounds, user_agent: str) -> NewEvent:
    """`Invalid` with every fault; an unknown website is one."""
    sent = checked(raw, TrackItem, RULES, bounds)
    website = find(sent.website_id)
    if website is None:
        raise unknown_website()
    source = Source.APP if website.kind is WebsiteKind.MOBILE else Source.BROWSER
    address = _split(sent.url or "")
    path = _path_of(sent, address, bounds)
    occurred_at_ms = _occurred_at_ms(sent, bounds)
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind(sent.type),
        name=sent.screen or sent.name or path,
        source=source,
        occurred_at_ms=occurred_at_ms,
        stated_at_ms=occurred_at_ms if sent.timestamp is None else sent.timestamp,
        received_at_ms=bounds.now_ms,
        visitor_id=sent.visitor_id,
        user_id=None,
        # A retry says anew when it was sent; that makes it no other event.
        body_hash=sized({name: value for name, value in raw.items() if name != "sentAt"}, bounds),
        dedupe_key=None if sent.dedupe_key is None else dedupe_key(website.id, Family.TRACK, sent.dedupe_key),
        columns=_columns(sent, path, address) | user_agent_columns(user_agent, source),
        properties=sent.properties or {},
    )


def unknown_website() -> Invalid:
    return Invalid([Fault("websiteId", "unknown_website", "There is no such website; its ID is in the tracking settings.")])


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _path_of(sent: TrackItem, address: SplitResult | None, bounds: Bounds) -> str:
    """The page path, from `path` or else from `url`. Empty when the item has neither."""
    if sent.path is not None or sent.url is None:
        return sent.path or ""
    path = page_path(address.path) if address is not None and address.path[:1] in ("", "/") else None
    if path is None and sent.type == "pageview":
        raise Invalid([Fault("url", "not_a_url", "Must be an absolute URL, or send path.")])
    if path is not None and len(path) > bounds.limits.max_path_chars:
        raise Invalid([Fault("url", "too_long", f"The path of a page may have {bounds.limits.max_path_chars:,} characters.")])
    return path or ""


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


def _columns(sent: TrackItem, path: str, address: SplitResult | None) -> dict[str, str]:
    referrer = _split(sent.referrer or "")
    campaign = dict(parse_qsl(address.query, errors="replace")) if address is not None else {}
    columns = {
        "session_id": sent.session_id,
        "path": path,
        "url": sent.url,
        "title": sent.title,
        "referrer": sent.referrer,
        "referrer_host": referrer.hostname if referrer is not None else None,
        **{name: getattr(sent, name) or campaign.get(name) for name in _UTM},
    }
    return {name: value for name, value in columns.items() if value}
