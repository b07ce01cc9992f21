"""Plain types for the quarantine. No I/O."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId, WorkspaceId

EVENT_ROUTES = ("/api/v1/events", "/api/v1/events/batch", "/api/v1/transactions", "/api/track")
"""Origins whose entries are single events and can be replayed."""

SEGMENT = "segment"
"""Stored as `protocol` in `sender` for tracking calls with an event, which can be replayed."""


class Reason(StrEnum):
    """The reason why an entry is in the quarantine. The values are stored."""

    REFUSED = "refused"
    """Validation refused the item, and its sender received the reason."""
    UNSHIPPABLE = "unshippable"
    """The item was accepted, but the warehouse refuses its row."""


class QuarantineLimits(NamedTuple):
    """Limits for one website. Beyond them, its least useful entries are deleted, starting with the
    oldest.
    """

    rows: int
    bytes: int


class SentBody(NamedTuple):
    """A body as it was sent.

    workspace_id: workspace of the key; None if no key was sent. sender: details about the sender
    that are needed to read the items again, such as its User-Agent.
    """

    route: str
    content: bytes
    workspace_id: WorkspaceId | None
    sender: Mapping[str, Any]


class QuarantineEntry(NamedTuple):
    """An item, a body or a warehouse row in the quarantine.

    number: increases with each entry; 0 until the entry is stored. website_id: None if the
    workspace has no such website. origin: the route, or the warehouse table. code: code of the
    problem document; `invalid` for an item of a batch. content: JSON as sent, or the row; None for
    a body that is not JSON, for a whole batch, and for content that is too large. sender: details
    about the sender that are needed to read the content again, such as its User-Agent. is_public:
    whether it came without a key, so that anyone may have sent it.
    """

    workspace_id: WorkspaceId
    website_id: WebsiteId | None
    at_ms: int
    origin: str
    code: str
    faults: tuple[Fault, ...]
    content: str | None = None
    is_public: bool = False
    sender: Mapping[str, Any] = MappingProxyType({})
    reason: Reason = Reason.REFUSED
    number: int = 0


def is_replayable(entry: QuarantineEntry) -> bool:
    """Whether the entry has the content that a replay needs. The content may still be invalid."""
    return entry.content is not None and (
        entry.reason is Reason.UNSHIPPABLE or entry.origin in EVENT_ROUTES or is_call(entry)
    )


def is_call(entry: QuarantineEntry) -> bool:
    """Whether the content is a tracking protocol call with an event."""
    return entry.sender.get("protocol") == SEGMENT
