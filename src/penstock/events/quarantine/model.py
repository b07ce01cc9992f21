"""Plain types for the quarantine. No I/O."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId, WorkspaceId

EVENT_ROUTES = ("/api/v1/events", "/api/v1/events/batch", "/api/v1/transactions", "/api/track")
"""Origins whose entries are single events and can be replayed."""

SEGMENT = "segment"
"""The `protocol` in `sender` of a tracking call with an event, which can be replayed. Stored."""


class Reason(StrEnum):
    """Why an entry is in the quarantine. The values are stored."""

    REFUSED = "refused"
    """Validation refused it; its sender got the reason."""
    UNSHIPPABLE = "unshippable"
    """It was accepted, but the warehouse refuses its row."""


class QuarantineLimits(NamedTuple):
    """Limits for one website. Beyond them, its least useful and oldest entries are deleted."""

    rows: int
    bytes: int


class QuarantineEntry(NamedTuple):
    """An item, a body or a warehouse row.

    number: increases with each entry. website_id: None if the workspace has no such website.
    origin: the route, or the warehouse table. code: code of the problem document; `invalid` for an
    item of a batch. content: JSON as sent, or the row; None for a body that is not JSON, a whole
    batch and content that is too large. sender: other values used to read the content.
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
    """Numbers of entries that left the quarantine (replayed) and that are still wrong (refused)."""

    replayed: int
    refused: int


def is_replayable(entry: QuarantineEntry) -> bool:
    """Whether the entry has the content that a replay needs. The content may still be wrong."""
    return entry.content is not None and (
        entry.reason is Reason.UNSHIPPABLE or entry.origin in EVENT_ROUTES or is_call(entry)
    )


def is_call(entry: QuarantineEntry) -> bool:
    """Whether the content is a tracking protocol call with an event."""
    return entry.sender.get("protocol") == SEGMENT
