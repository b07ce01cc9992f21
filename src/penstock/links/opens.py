"""An app's open as an event: `install` for the first one, `open` for others."""

from hashlib import blake2b

from msgspec import json

from penstock.accounts.model import Website
from penstock.base.ids import VisitorId, WebsiteId
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.useragent import user_agent_columns
from penstock.links.agents import Platform
from penstock.links.resolve_schema import AppOpen
from penstock.links.resolving import Decision

INSTALL, OPEN = "install", "open"
"""Names of the events."""

SAME_OPEN_MS = 60 * 1000
"""Opens of one install for one link within the same minute are one, unless the app tells them apart."""

_SYSTEMS = {Platform.IOS: "iOS", Platform.ANDROID: "Android"}


def visitor_of_install(website_id: WebsiteId, install_id: str) -> VisitorId:
    """Who an install is while the app names no visitor: the same for ever."""
    digest = blake2b(f"{website_id}\0{install_id}".encode(), digest_size=16).hexdigest()
    return VisitorId(f"vis_{digest}")


def install_event(sent: AppOpen, website: Website, visitor_id: VisitorId, decision: Decision, user_agent: str, now_ms: int) -> NewEvent:
    """One for each install, however often it says that it opens for the first time."""
    return _event(INSTALL, sent.install_id, sent, website, visitor_id, decision, user_agent, now_ms)


def open_event(sent: AppOpen, website: Website, visitor_id: VisitorId, decision: Decision, user_agent: str, now_ms: int) -> NewEvent:
    """One for each `dedupeKey`, or else for each click, or else for each minute."""
    if sent.dedupe_key is not None:
        own_id = f"key\0{sent.dedupe_key}"
    elif decision.matched and decision.click is not None:
        own_id = f"{sent.install_id}\0{decision.click.id}"
    else:
        own_id = f"{sent.install_id}\0{decision.link.id if decision.link else ''}\0{now_ms // SAME_OPEN_MS}"
    return _event(OPEN, own_id, sent, website, visitor_id, decision, user_agent, now_ms)


def _event(
    name: str, own_id: str, sent: AppOpen, website: Website, visitor_id: VisitorId, decision: Decision, user_agent: str, now_ms: int
) -> NewEvent:
    link = decision.link
    attribution = {"link": link.slug, "link_method": str(decision.method), **decision.utm} if link else {}
    told = {"platform": sent.platform.value, "osVersion": sent.os_version, "appVersion": sent.app_version}
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind.EVENT,
        name=name,
        source=Source.APP,
        occurred_at_ms=now_ms,
        stated_at_ms=now_ms,
        received_at_ms=now_ms,
        visitor_id=visitor_id,
        user_id=None,
        body_hash=body_hash(json.encode([attribution.get("link")])),
        dedupe_key=dedupe_key(website.id, Family.OPENS, f"{name}\0{own_id}"),
        columns={**user_agent_columns(user_agent, Source.APP), "os": _SYSTEMS[sent.platform], **attribution},
        properties={name: value for name, value in told.items() if value},
    )
