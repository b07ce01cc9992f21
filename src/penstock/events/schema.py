"""Wire types of the intake: answers, and the body of identify."""

from collections.abc import Sequence
from operator import not_
from typing import Self

from pydantic import Field

from penstock.base.errors import Fault
from penstock.events.batch import ItemResult
from penstock.events.fields import KnownWebsite, Properties, SentId
from penstock.events.model import Receipt, Status
from penstock.http.schema import Input, Record
from penstock.identity.model import Notice, Resolution


class WarningRecord(Record):
    """A warning beside a successful answer."""

    code: str
    message: str

    @classmethod
    def all_of(cls, notices: Sequence[Notice]) -> tuple[Self, ...]:
        return tuple(cls(code=notice.code, message=notice.message) for notice in notices)


class EventRecord(Record):
    """The result for one event. Of a duplicate, the IDs are the first event's."""

    status: Status
    event_id: str
    visitor_id: str | None = Field(
        description="The canonical visitor; of a duplicate, the first event's. "
        "Null when that visitor was deleted."
    )
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, receipt: Receipt) -> Self:
        return cls(
            status=receipt.status,
            event_id=receipt.event_id,
            visitor_id=receipt.visitor_id,
            warnings=WarningRecord.all_of(receipt.warnings),
        )


class FaultRecord(Record):
    """One broken rule."""

    field: str = Field(description="Path inside the item; empty for the item as a whole.")
    code: str
    message: str

    @classmethod
    def of(cls, fault: Fault) -> Self:
        return cls(field=fault.field, code=fault.code, message=fault.message)


class ItemRecord(Record):
    """The result for one item of a batch."""

    index: int = Field(description="Place in the batch, from 0.")
    status: str = Field(description="accepted, duplicate or rejected")
    event_id: str | None = None
    visitor_id: str | None = None
    errors: tuple[FaultRecord, ...] = ()
    more_errors: int = Field(
        default=0, exclude_if=not_, description="Number of errors that `errors` leaves out."
    )
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, index: int, result: ItemResult) -> Self:
        if result.receipt is None:
            return cls(
                index=index,
                status="rejected",
                errors=tuple(FaultRecord.of(fault) for fault in result.faults),
                more_errors=result.more_faults,
            )
        return cls(index=index, **dict(EventRecord.of(result.receipt)))


class BatchRecord(Record):
    """The results of a batch."""

    accepted: int
    duplicates: int
    rejected: int
    results: tuple[ItemRecord, ...]

    @classmethod
    def of(cls, results: Sequence[ItemResult]) -> Self:
        records = tuple(ItemRecord.of(index, result) for index, result in enumerate(results))
        statuses = [record.status for record in records]
        return cls(
            accepted=statuses.count(Status.ACCEPTED),
            duplicates=statuses.count(Status.DUPLICATE),
            rejected=statuses.count("rejected"),
            results=records,
        )


class Identify(Input):
    """Links a visitor to a user. traits: facts about the user; they replace earlier ones."""

    website_id: KnownWebsite
    visitor_id: SentId
    user_id: SentId
    traits: Properties | None = None


class IdentifyRecord(Record):
    """The result of identify."""

    visitor_id: str = Field(description="The canonical visitor.")
    merged: bool = Field(description="Whether this call merged two visitors.")
    warnings: tuple[WarningRecord, ...] = Field(default=(), exclude_if=not_)

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        return cls(
            visitor_id=resolution.visitor_id,
            merged=resolution.merged,
            warnings=WarningRecord.all_of(resolution.notices),
        )
