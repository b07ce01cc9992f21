"""Wire types for stored outcomes."""

from enum import StrEnum
from typing import Self

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
    website_id: str | None = None
    """Only outcomes for this website; by default, for all websites."""


class OutcomesRecord(Record):
    """Stored outcomes of a funnel's current revision."""

    state: OutcomesState
    reason: DirectReason | None = None
    """Why no outcomes are stored, if the state is `none`; null otherwise."""
    started_at: str | None = None
    """When the build started."""
    rows_read: int = 0
    """Rows of the event store that the build read."""
    rows_to_read: int = 0
    """Estimated number of rows for the statements so far, which may rise."""
    evaluated_at: str | None = None
    """With `stored`: the time up to which attempts are stored."""

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
