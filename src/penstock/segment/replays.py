"""Replays quarantined calls, using stored facts about their senders."""

from collections.abc import Mapping
from typing import Any

from penstock.accounts.model import Website
from penstock.events.fields import EventValidationContext
from penstock.events.model import NewEvent
from penstock.events.quarantine.model import SEGMENT
from penstock.events.segment_fields import EVENT_TYPES
from penstock.segment.calls import CallContext, read_call
from penstock.segment.model import Sender


def replay_sender(call: Any, sender: Sender, user_agent: str) -> Mapping[str, Any]:
    """Return the facts needed to replay a track, page or screen call; nothing for other calls."""
    if not is_event(call):
        return {}
    return {"protocol": SEGMENT, "isTrusted": sender.is_trusted, "userAgent": user_agent}


def read_refused_call(
    raw: Any, website: Website, sender: Mapping[str, Any], limits: EventValidationContext
) -> NewEvent:
    """Parse a quarantined call as an event. Raises `Invalid` like `read_call`.

    sender: the stored result of `replay_sender`.
    """
    context = CallContext(
        Sender(website, sender["isTrusted"]), limits, lambda *_: False, sender["userAgent"]
    )
    event = read_call(raw, context)
    assert isinstance(event, NewEvent)  # only events have a stored sender
    return event


def is_event(call: Any) -> bool:
    return isinstance(call, dict) and call.get("type") in EVENT_TYPES
