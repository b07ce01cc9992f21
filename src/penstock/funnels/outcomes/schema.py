"""Wire types for stored outcomes."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field

from penstock.base.clock import iso, iso_or_none
from penstock.funnels.queries.schema import DirectReason
from penstock.http.schema import Query, Record


class OutcomesState(StrEnum):
    """The state of a funnel's stored outcomes."""

    NONE = "none"
    QUEUED = "queued"
    BUILDING = "building"
    STORED = "stored"


class OutcomesQuery(Query):
    website_id: Annotated[
        str | None,
        Field(description="Only outcomes for this website; by default, for all websites."),
    ] = None


class OutcomesRecord(Record):
    """Stored outcomes of a funnel's current revision."""

    state: OutcomesState
    reason: Annotated[
        DirectReason | None,
        Field(description="Why no outcomes are stored, if the state is `none`; null otherwise."),
    ] = None
    started_at: Annotated[str | None, Field(description="When the build started.")] = None
    rows_read: Annotated[int, Field(description="Rows of the event store that the build read.")] = 0
    rows_to_read: Annotated[
        int,
        Field(description="Estimated number of rows for the statements so far, which may rise."),
    ] = 0
    evaluated_at: Annotated[
        str | None, Field(description="With `stored`: the time up to which attempts are stored.")
    ] = None

    @classmethod
    def stored(cls, read_until_ms: int) -> Self:
        return cls(state=OutcomesState.STORED, evaluated_at=iso(read_until_ms))

    @classmethod
    def pending(cls, started_at_ms: int | None, rows_read: int, rows_to_read: int) -> Self:
        return cls(
            state=OutcomesState.QUEUED if started_at_ms is None else OutcomesState.BUILDING,
            started_at=iso_or_none(started_at_ms),
            rows_read=rows_read,
            rows_to_read=rows_to_read,
        )

    @classmethod
    def missing(cls, reason: DirectReason) -> Self:
        return cls(state=OutcomesState.NONE, reason=reason)
