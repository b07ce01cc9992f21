"""An app's open as an event: `install` for the first open, `open` for later ones."""

from dataclasses import dataclass
from hashlib import blake2b

from msgspec import json

from penstock.accounts.model import Website
from penstock.base.ids import VisitorId, WebsiteId
from penstock.base.user_agent import Platform, UserAgent
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.user_agent_columns import user_agent_columns
from penstock.links.attribution.model import Decision
from penstock.links.attribution.schema import AppOpen

INSTALL, OPEN = "install", "open"
"""Event names."""

SAME_OPEN_MS = 60 * 1000
"""Opens of one install for one link in the same minute count once, without a `dedupeKey`."""

_OS = {Platform.IOS: "iOS", Platform.ANDROID: "Android"}


def visitor_of_install(website_id: WebsiteId, install_id: str) -> VisitorId:
    """The visitor of an install whose app sends no visitor ID; always the same one."""
    digest = blake2b(f"{website_id}\0{install_id}".encode(), digest_size=16).hexdigest()
    return VisitorId(f"vis_{digest}")


@dataclass(frozen=True, slots=True)
class Opening:
    """An open of an app, and what is known of it."""

    app_open: AppOpen
    website: Website
    visitor_id: VisitorId
    decision: Decision
    user_agent: UserAgent
    at_ms: int


def install_event(opening: Opening) -> NewEvent:
    """One event per install, however often the app reports its first open."""
    return _event(INSTALL, opening.app_open.install_id, opening)


def open_event(opening: Opening) -> NewEvent:
    """One event per `dedupeKey`, or else per click, or else per link and minute."""
    app_open, decision = opening.app_open, opening.decision
    if app_open.dedupe_key is not None:
        own_id = f"key\0{app_open.dedupe_key}"
    elif decision.matched and decision.click is not None:
        own_id = f"{app_open.install_id}\0{decision.click.id}"
    else:
        link_id = decision.link.id if decision.link else ""
        own_id = f"{app_open.install_id}\0{link_id}\0{opening.at_ms // SAME_OPEN_MS}"
    return _event(OPEN, own_id, opening)


def _event(name: str, own_id: str, opening: Opening) -> NewEvent:
    app_open, website, decision = opening.app_open, opening.website, opening.decision
    link = decision.link
    attribution = (
        {"link": link.slug, "link_method": str(decision.method), **decision.utm} if link else {}
    )
    properties = {
        "platform": app_open.platform.value,
        "osVersion": app_open.os_version,
        "appVersion": app_open.app_version,
    }
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind.EVENT,
        name=name,
        source=Source.APP,
        occurred_at_ms=opening.at_ms,
        stated_at_ms=opening.at_ms,
        received_at_ms=opening.at_ms,
        visitor_id=opening.visitor_id,
        user_id=None,
        body_hash=body_hash(json.encode([attribution.get("link")])),
        dedupe_key=dedupe_key(website.id, Family.OPENS, f"{name}\0{own_id}"),
        columns={
            **user_agent_columns(opening.user_agent, Source.APP),
            "os": _OS[app_open.platform],
            **attribution,
        },
        properties={name: value for name, value in properties.items() if value},
    )
