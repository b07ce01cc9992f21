"""Turns an app open into an event: `install` for the first open, `open` for later ones."""

from msgspec import json

from penstock.base.user_agent import Platform
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.user_agent_columns import user_agent_columns
from penstock.links.attribution.model import Decision
from penstock.links.attribution.open_context import OpenContext

INSTALL, OPEN = "install", "open"
"""Event names."""

SAME_OPEN_MS = 60 * 1000
"""Time in ms within which an install's opens of the same link count once, unless they have a
`dedupeKey`.
"""

_OS = {Platform.IOS: "iOS", Platform.ANDROID: "Android"}


def install_event(context: OpenContext, decision: Decision) -> NewEvent:
    """Build the `install` event. Repeated reports of an install's first open result in the same
    event.
    """
    return _event(INSTALL, context.app_open.install_id, context, decision)


def open_event(context: OpenContext, decision: Decision) -> NewEvent:
    """Build the `open` event. There is one event per `dedupeKey`; without a key, one per click, or
    one per link and minute.
    """
    app_open = context.app_open
    if app_open.dedupe_key is not None:
        own_id = f"key\0{app_open.dedupe_key}"
    elif decision.is_match and decision.click is not None:
        own_id = f"{app_open.install_id}\0{decision.click.id}"
    else:
        link_id = decision.link.id if decision.link else ""
        own_id = f"{app_open.install_id}\0{link_id}\0{context.now_ms // SAME_OPEN_MS}"
    return _event(OPEN, own_id, context, decision)


def _event(name: str, own_id: str, context: OpenContext, decision: Decision) -> NewEvent:
    app_open, website, link = context.app_open, context.website, decision.link
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
        occurred_at_ms=context.now_ms,
        stated_at_ms=context.now_ms,
        received_at_ms=context.now_ms,
        visitor_id=context.visitor_id,
        user_id=None,
        body_hash=body_hash(json.encode([attribution.get("link")])),
        dedupe_key=dedupe_key(website.id, Family.OPENS, f"{name}\0{own_id}"),
        columns={
            **user_agent_columns(context.user_agent, Source.APP),
            "os": _OS[app_open.platform],
            **attribution,
        },
        properties={name: value for name, value in properties.items() if value},
    )
