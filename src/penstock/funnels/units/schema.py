"""What goes over the wire about single units: who is behind a number, and what was decided on each event of one of them."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.scalar import Scalar
from penstock.funnels.results.schema import CohortQuery, HeadRecord, PeriodQuery
from penstock.funnels.statements.units import Outcome, Quality
from penstock.funnels.units.trace import Decision
from penstock.http.schema import Record


class UnitsQuery(CohortQuery):
    """The query parameters of a list of units. Every condition that is given holds."""

    step: Annotated[
        int | None,
        Field(ge=1, le=20, description="Units that reached it; with outcome pending or droppedOff, those whose furthest step it is."),
    ] = None
    option: Annotated[int | None, Field(ge=0, le=30, description="Units that count for this option of the step; needs step.")] = None
    outcome: Outcome | None = None
    diagnostic: Annotated[int | None, Field(ge=0, le=29, description="Units of which this diagnostic row (its `row`) saw an event.")] = None
    quality: Annotated[Quality | None, Field(description="Units that data quality counts for this.")] = None
    property: Annotated[
        str | None, Field(description="The breakdown property that unknownEntryValue or conflict is about; any of them when left out.")
    ] = None
    cursor: Annotated[str | None, Field(max_length=200, description="`nextCursor` of the page before.")] = None
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE, description="Units on a page, 1 to 100.")] = 20


class UnitRecord(Record):
    """One counted unit."""

    unit: Annotated[str, Field(description="The attempt ID, or the canonical visitor's ID.")]
    entry_at: str
    window_ends_at: Annotated[str | None, Field(description="null: never.")]
    reached: Annotated[int, Field(description="Steps completed, from 1.")]
    outcome: Outcome
    completed_at: str | None
    cohort: dict[str, Scalar | None]
    sequence_skips: int
    unordered_ties: int
    invalid_sequence_values: int
    tied_entry: bool
    conflicting_entry_values: Annotated[list[str], Field(description="Breakdown properties of which a later event carries another value.")]
    several_visitors: bool


class UnitsRecord(HeadRecord):
    """A page of counted units, newest entry first."""

    total: Annotated[int, Field(description="Units on all pages.")]
    next_cursor: Annotated[str | None, Field(description="null on the last page.")]
    data: list[UnitRecord]


class EntryValueRecord(Record):
    """Where an entry value comes from. how: the entry event alone, the agreement of tied events, their disagreement, or none carries it."""

    value: Scalar | None
    how: Literal["entryEvent", "agreed", "disagreed", "missing"]
    event_ids: list[str]


class ConflictRecord(Record):
    """An accepted later event that carries another value of a breakdown property."""

    property: str
    entry_value: Scalar | None
    value: Scalar | None
    event_id: str
    occurred_at: str


class CompletedStepRecord(Record):
    step: int
    event_id: str
    at: str


class TracedEventRecord(Record):
    """One event of a unit, in the order read."""

    event_id: str
    occurred_at: str
    type: str
    name: str
    source: str
    visitor_id: Annotated[str, Field(description="The canonical visitor.")]
    sequence_number: int | None
    invalid_sequence_value: bool
    properties: Annotated[dict[str, JsonValue], Field(description="Those that the funnel reads; null for an object or array.")]
    decision: Decision
    step: Annotated[int | None, Field(description="The required step that the decision concerned.")]
    row: int | None
    diagnostic_rows: Annotated[list[int], Field(description="Diagnostic rows that counted the event.")]
    explanation: str


class TraceRecord(HeadRecord):
    """One unit: what was decided on each of its events, and what came of it."""

    unit: str
    selected: Annotated[bool, Field(description="Whether the unit is in the report: it entered, and in the period.")]
    summary: str
    visitors: list[str]
    entry_at: str | None
    window_ends_at: str | None
    reached: int
    outcome: Outcome | None
    completed_at: str | None
    steps: list[CompletedStepRecord]
    entry_values: dict[str, EntryValueRecord]
    conflicts: list[ConflictRecord]
    matching_only: Annotated[bool, Field(description="The unit has so many events that those which match no row are left out.")]
    events: list[TracedEventRecord]


class ExplainQuery(PeriodQuery):
    """The query parameters of an explanation."""

    event_id: Annotated[str, Field(min_length=1, max_length=200, description="`eventId` as the intake answered it.")]


class ExplainRecord(HeadRecord):
    """Whether one stored event counts in a funnel, and why."""

    event_id: str
    unit: Annotated[str | None, Field(description="null: the event carries no attempt ID.")]
    counts: Annotated[bool, Field(description="Whether it was the entry, was accepted, or was counted by a diagnostic row.")]
    selected: bool
    decision: Decision
    step: int | None
    row: int | None
    explanation: str
    unit_summary: str | None
