"""Wire types for the quarantine and for event counts."""

from typing import Self

from msgspec import json

from penstock.events.quarantine.model import QuarantineEntry, is_replayable
from penstock.events.redaction import redact
from penstock.events.schema import FaultRecord
from penstock.http.schema import Input, Iso, PageQuery, Query, Record


class QuarantineQuery(PageQuery):
    website_id: str | None = None
    """Only entries of this website, or of an unknown website."""


class ExportQuery(Query):
    website_id: str


class ReplayAll(Input):
    """Replay all entries in a website's quarantine."""

    website_id: str


class QuarantineRecord(Record):
    """A rejected item or body, or an event that the event store refuses."""

    number: int
    """Increases with each entry."""
    at: Iso
    reason: str
    """`refused`: validation rejected it. `unshippable`: it was accepted, but the event store
    refuses its row.
    """
    route: str
    """The route, or the table of the event store."""
    website_id: str | None
    """Null if the item does not contain a website of the workspace."""
    code: str
    """Code of the problem document; `invalid` for an item of a batch."""
    errors: tuple[FaultRecord, ...]
    item: str | None
    """An excerpt as JSON text, without secrets and network addresses."""
    replayable: bool
    """Whether the entry can be replayed."""

    @classmethod
    def from_entry(cls, entry: QuarantineEntry) -> Self:
        return cls.from_object(
            entry,
            route=entry.origin,
            errors=entry.faults,
            item=None if entry.content is None else redact(json.decode(entry.content)),
            replayable=is_replayable(entry),
        )


class QuarantinedContent(QuarantineRecord):
    """A line of an export."""

    content: str | None
    """The item as sent, or the row of the event store, as JSON."""


class ReplayRecord(Record):
    replayed: int
    refused: int
    """Entries that are still invalid; they stay in the quarantine."""


class EventCountsRecord(Record):
    """Event counts of a website since counting began.

    received = stored + duplicates + refused + quarantined + waiting.
    """

    website_id: str
    received: int
    """Events that were accepted or rejected individually."""
    stored: int
    """Events written to the event store, including events that were deleted later."""
    duplicates: int
    refused: int
    """Events that validation rejected."""
    quarantined: int
    """Accepted events that the event store refuses."""
    waiting: int
    """Events that are on their way to the event store."""
    dropped: int
    """Rejected or quarantined events that are no longer stored."""
    lost_on_devices: int
    """Events that clients dropped because their queues were full. They were never received."""


class AllEventCountsRecord(Record):
    """The event counts of every website in the workspace."""

    data: tuple[EventCountsRecord, ...]
