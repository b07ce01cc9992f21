"""Wire types for the tracking protocol: calls and responses."""

from collections.abc import Sequence
from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from penstock.events.fields import Properties, SentId
from penstock.events.schema import FaultRecord, TimedItem, WarningRecord
from penstock.http.schema import Input, Record
from penstock.segment.model import CallResult


class _Open(BaseModel):
    """Part of a body that allows additional fields, because clients send many."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow")


class SegmentCall(_Open):
    """A call from a client. Other fields are ignored."""

    type: Annotated[
        Literal["track", "page", "screen", "identify", "alias", "group"] | None,
        Field(description="Required in a batch; other routes take it from the URL."),
    ] = None
    message_id: Annotated[
        str | None, Field(description="ID of the call. A repeat with the same ID changes nothing.")
    ] = None
    anonymous_id: Annotated[str | None, Field(description="The visitor.")] = None
    user_id: str | None = None
    previous_id: Annotated[str | None, Field(description="For alias calls: the visitor.")] = None
    event: Annotated[str | None, Field(description="For track calls: the name of the event.")] = (
        None
    )
    name: Annotated[str | None, Field(description="For screen calls: the name of the screen.")] = (
        None
    )
    properties: dict[str, Any] | None = None
    traits: Annotated[
        dict[str, Any] | None, Field(description="For identify calls: traits of the user.")
    ] = None
    context: dict[str, Any] | None = None
    timestamp: str | int | None = None
    original_timestamp: str | int | None = None
    sent_at: str | int | None = None
    write_key: Annotated[
        str | None, Field(description="Write key, if there is no Authorization header.")
    ] = None


class SegmentBatch(_Open):
    """A batch of calls. Each call must include its type."""

    batch: list[SegmentCall]
    sent_at: str | int | None = None
    write_key: str | None = None


class SegmentCalls(RootModel[SegmentBatch | SegmentCall]):
    """The body of `/v1/batch` and `/v1/import`, or a single call."""


class EventCall(TimedItem):
    """The fields of a track, page or screen call, flattened by `penstock.segment.calls`."""

    message_id: SentId | None = None
    anonymous_id: SentId | None = None
    user_id: SentId | None = None


class UserCall(Input):
    """An identify or alias call that contains a user."""

    visitor_id: SentId | None = None
    user_id: SentId
    traits: Properties | None = None
    user_hash: Annotated[str | None, Field(max_length=64)] = None


class RejectedRecord(Record):
    """A call that was rejected."""

    index: Annotated[int, Field(description="Position in the batch, from 0.")]
    errors: tuple[FaultRecord, ...]
    more_errors: Annotated[int, Field(exclude_if=not_)] = 0


class CallWarningRecord(WarningRecord):
    """A warning about a call that was accepted."""

    index: int


class SegmentRecord(Record):
    """The result of a request. Every call that is not in `rejected` is safely on disk."""

    success: bool = True
    rejected: Annotated[tuple[RejectedRecord, ...], Field(exclude_if=not_)] = ()
    warnings: Annotated[
        tuple[CallWarningRecord, ...],
        Field(exclude_if=not_, description="Warnings; only if the write key is an API key."),
    ] = ()

    @classmethod
    def from_results(cls, results: Sequence[CallResult]) -> Self:
        return cls(
            rejected=tuple(
                RejectedRecord.from_object(
                    result,
                    index=index,
                    errors=result.rejected.faults,
                    more_errors=result.rejected.more_faults,
                )
                for index, result in enumerate(results)
                if result.rejected is not None
            ),
            warnings=tuple(
                CallWarningRecord.from_object(warning, index=index)
                for index, result in enumerate(results)
                for warning in result.warnings
            ),
        )
