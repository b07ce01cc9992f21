"""Answers of the intake's routes, and the body of identify."""

from collections.abc import Sequence
from operator import not_
from typing import Self

from pydantic import Field

from penstock.base.errors import Fault
from penstock.events.batch import Outcome
from penstock.events.fields import KnownWebsite, Properties, SentId
from penstock.events.model import Receipt, Status
from penstock.http.schema import Input, Record
from penstock.identity.model import Notice, Resolution


class Warned(Record):
    """A warning: nothing was refused, but the caller should know."""

    code: str
    message: str

    @classmethod
    def all_of(cls, notices: Sequence[Notice]) -> tuple[Self, ...]:
        return tuple(cls(code=notice.code, message=notice.message) for notice in notices)


class EventRecord(Record):
    """What became of an event. Of a duplicate, the IDs are the first event's."""

    status: Status
    event_id: str
    visitor_id: str | None = Field(
        description="The canonical visitor, of a duplicate as it was at first; null when that one was deleted since."
    )
    warnings: tuple[Warned, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, receipt: Receipt) -> Self:
        return cls(
            status=receipt.status, event_id=receipt.event_id, visitor_id=receipt.visitor_id, warnings=Warned.all_of(receipt.warnings)
        )


class FaultRecord(Record):
    field: str = Field(description="path inside the item")
    code: str
    message: str

    @classmethod
    def of(cls, fault: Fault) -> Self:
        return cls(field=fault.field, code=fault.code, message=fault.message)


class ItemRecord(Record):
    """What became of one item of a batch."""

    index: int = Field(description="place in the batch, from 0")
    status: str = Field(description="accepted, duplicate or rejected")
    event_id: str | None = None
    visitor_id: str | None = None
    errors: tuple[FaultRecord, ...] = ()
    warnings: tuple[Warned, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, index: int, outcome: Outcome) -> Self:
        if outcome.receipt is None:
            return cls(index=index, status="rejected", errors=tuple(FaultRecord.of(fault) for fault in outcome.faults))
        return cls(index=index, **dict(EventRecord.of(outcome.receipt)))


class BatchRecord(Record):
    """What became of a batch."""

    accepted: int
    duplicates: int
    rejected: int
    results: tuple[ItemRecord, ...]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Self:
        results = tuple(ItemRecord.of(index, outcome) for index, outcome in enumerate(outcomes))
        statuses = [result.status for result in results]
        return cls(
            accepted=statuses.count(Status.ACCEPTED),
            duplicates=statuses.count(Status.DUPLICATE),
            rejected=statuses.count("rejected"),
            results=results,
        )


class Identify(Input):
    """Says that a visitor is a user. traits: what is known of the user; the last ones told are kept."""

    website_id: KnownWebsite
    visitor_id: SentId
    user_id: SentId
    traits: Properties | None = None


class IdentifyRecord(Record):
    """visitorId: the canonical one. merged: whether this call merged two visitors."""

    visitor_id: str
    merged: bool
    warnings: tuple[Warned, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        return cls(visitor_id=resolution.visitor_id, merged=resolution.merged, warnings=Warned.all_of(resolution.notices))
