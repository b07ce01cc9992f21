"""Plain types of the quarantine. No I/O."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId, WorkspaceId

EVENT_ROUTES = ("/api/v1/events", "/api/v1/events/batch", "/api/v1/transactions", "/api/track")
"""Origins of single events, which can be replayed."""

SEGMENT = "segment"
"""The `protocol` of the sender of a call with an event, which can be replayed. Stored."""


class Reason(StrEnum):
    """Why an entry is in the quarantine. The values are stored."""

    REFUSED = "refused"
    """Validation refused it; its sender got the reason."""
    UNSHIPPABLE = "unshippable"
    """It was accepted, but the warehouse refuses its row."""


class QuarantineLimits(NamedTuple):
    """Limits of one website. Beyond them, its oldest and least useful entries are deleted."""

    rows: int
    bytes: int


class QuarantineEntry(NamedTuple):
    """An item, a body or a warehouse row.

    number: rises with each entry. website_id: None if the item names no website of the workspace.
    origin: the route, or the warehouse table. code: code of the problem document; `invalid` for an
    item of a batch. content: JSON as sent, or the row; None for a body that is not JSON, a whole
    batch and content that is too large. sender: other values that the content was read with.
    is_public: see `Refusal`.
    """

    number: int
    workspace_id: WorkspaceId
    website_id: WebsiteId | None
    at_ms: int
    reason: Reason
    origin: str
    code: str
    faults: tuple[Fault, ...]
    sender: Mapping[str, Any]
    content: str | None
    is_public: bool = False


class ReplayResult(NamedTuple):
    """replayed: entries that left the quarantine. refused: those that are still wrong."""

    replayed: int
    refused: int


def is_replayable(entry: QuarantineEntry) -> bool:
    """Whether the entry has all that it takes; it may still be wrong."""
    return entry.content is not None and (
        entry.reason is Reason.UNSHIPPABLE or entry.origin in EVENT_ROUTES or is_call(entry)
    )


def is_call(entry: QuarantineEntry) -> bool:
    """Whether the content is a call of the tracking protocol that has an event."""
    return entry.sender.get("protocol") == SEGMENT
