"""Wire types for single units: lists, traces and explanations."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from penstock.base.event_limits import MAX_PATH_CHARS
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.row_files import RowFormat
from penstock.base.scalar import Scalar
from penstock.base.table_files import TableFormat
from penstock.funnels.queries.schema import AdHocQuery, CohortQuery, HeadRecord
from penstock.funnels.statements.units import Outcome, Quality, UnitSort
from penstock.funnels.units.path import Decision
from penstock.http.schema import Record, without_nul


class UnitListQuery(CohortQuery):
    """Query parameters that select and sort units. Listed units meet all of the conditions."""

    step: Annotated[
        int | None,
        Field(
            ge=1,
            le=20,
            description="Units that reached this step. With the outcome pending, droppedOff "
            "or excluded: units that got exactly this far.",
        ),
    ] = None
    option: Annotated[
        int | None,
        Field(
            ge=0,
            le=30,
            description="Units that count for this option of the step. Requires `step`.",
        ),
    ] = None
    outcome: Outcome | None = None
    diagnostic: Annotated[
        int | None,
        Field(
            ge=0,
            le=29,
            description="Units with an event that this diagnostic row (its `row`) counts.",
        ),
    ] = None
    quality: Annotated[
        Quality | None, Field(description="Units with this data-quality problem.")
    ] = None
    property: Annotated[
        str | None,
        Field(
            description="Breakdown property for the quality unknownEntryValue or conflict; by "
            "default, any property."
        ),
    ] = None
    event_name: Annotated[
        Annotated[str, Field(max_length=MAX_PATH_CHARS), AfterValidator(without_nul)] | None,
        Field(
            description="Units with this event soon after the step: the units of an event among "
            "the drivers of a loss. Requires `step` and `eventType`."
        ),
    ] = None
    event_type: Annotated[
        Literal["Pageview", "Screen view", "Event", "Transaction", "Provider"] | None,
        Field(description="Type of the event. Requires `eventName`."),
    ] = None
    has_event: Annotated[
        bool,
        Field(
            description="false: the units without the event that are compared with those that have "
            "it. Requires `eventName`."
        ),
    ] = True
    of: Annotated[
        Literal["unit", "visitor"],
        Field(
            description="unit: `eventName` is an event of the unit, which for an attempt has its "
            "ID. visitor: any event of the attempt's visitors."
        ),
    ] = "unit"
    sort: Annotated[
        UnitSort,
        Field(
            description="Time that sorts the list: of the entry, of the completion (units that did "
            "not complete come last), or of the unit's last event."
        ),
    ] = UnitSort.ENTRY
    order: Annotated[
        Literal["desc", "asc"], Field(description="Descending or ascending order.")
    ] = "desc"


class UnitsQuery(UnitListQuery):
    """Query parameters for a page of a list of units."""

    cursor: Annotated[
        str | None, Field(max_length=200, description="`nextCursor` of the previous page.")
    ] = None
    page_size: Annotated[
        int, Field(ge=1, le=MAX_PAGE_SIZE, description="Units per page, 1 to 100.")
    ] = 20


class UnitExportQuery(UnitListQuery):
    """Query parameters for a file with a list of units. The page of the list is ignored."""

    format: Annotated[TableFormat, Field(description="File format.")] = "csv"
    cursor: Annotated[str | None, Field(description="Ignored: a file has all pages.")] = None
    page_size: Annotated[str | None, Field(description="Ignored: a file has all pages.")] = None


class UnitTableQuery(CohortQuery):
    """Query parameters for the table of all units."""

    format: Annotated[RowFormat, Field(description="Format of the file.")] = RowFormat.PARQUET


class UnitRecord(Record):
    """One counted unit."""

    unit: Annotated[str, Field(description="The attempt ID, or the canonical visitor's ID.")]
    entry_at: str
    window_ends_at: Annotated[
        str | None, Field(description="End of the conversion window; null if it never ends.")
    ]
    reached: Annotated[int, Field(description="Steps completed, from 1.")]
    outcome: Outcome
    completed_at: str | None
    excluded_at: str | None
    last_activity_at: Annotated[
        str | None,
        Field(
            description="Time of the unit's last event, whether or not it matches a step. null if "
            "none of its events is retained any more."
        ),
    ]
    cohort: dict[str, Scalar | None]
    sequence_skips: int
    unordered_ties: int
    assumed_order: int
    invalid_sequence_values: int
    tied_entry: bool
    conflicting_entry_values: Annotated[
        list[str],
        Field(description="Breakdown properties that have another value in a later event."),
    ]
    several_visitors: bool
    coarse_times: Annotated[
        int,
        Field(description="Provider events whose whole second contains another event of the unit."),
    ]


class UnitsRecord(HeadRecord):
    """A page of counted units."""

    total: Annotated[int, Field(description="Units on all pages.")]
    next_cursor: Annotated[str | None, Field(description="null on the last page.")]
    data: list[UnitRecord]


class EntryValueRecord(Record):
    """The origin of an entry value.

    how: `entryEvent`, or whether tied events agree, disagree or all lack the value.
    """

    value: Scalar | None
    how: Literal["entryEvent", "agreed", "disagreed", "missing"]
    event_ids: list[str]


class ConflictRecord(Record):
    """A later event with another value of a breakdown property."""

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
    """An event of a unit. Events are listed in reading order."""

    event_id: str
    client_event_id: Annotated[
        str | None, Field(description="The sender's ID of the event; null if none was sent.")
    ]
    occurred_at: str
    whole_second: Annotated[
        bool,
        Field(
            description="Its provider sends whole seconds: it counts at the start of its second "
            "for step 1, and at the end for later steps."
        ),
    ]
    type: str
    name: str
    source: str
    visitor_id: Annotated[str, Field(description="The canonical visitor.")]
    sequence_number: int | None
    invalid_sequence_value: bool
    properties: Annotated[
        dict[str, JsonValue],
        Field(description="Properties that the funnel reads; null for an object or array."),
    ]
    decision: Decision
    step: Annotated[
        int | None,
        Field(
            description="The required step of the decision; for an exclusion, the step after which "
            "it excluded the unit."
        ),
    ]
    row: int | None
    diagnostic_rows: Annotated[
        list[int], Field(description="Diagnostic rows that count the event.")
    ]
    explanation: str


class TraceRecord(HeadRecord):
    """One unit: its outcome, and the decision on each of its events."""

    unit: str
    selected: Annotated[
        bool,
        Field(
            description="Whether the unit is in the report: it entered in the period, and passes "
            "the `filters`, `segment` and `settled` of the request, without internal traffic."
        ),
    ]
    summary: str
    visitors: list[str]
    entry_at: str | None
    window_ends_at: str | None
    reached: int
    outcome: Outcome | None
    completed_at: str | None
    excluded_at: str | None
    steps: list[CompletedStepRecord]
    entry_values: dict[str, EntryValueRecord]
    conflicts: list[ConflictRecord]
    matching_only: Annotated[
        bool,
        Field(
            description="Whether events that match no row are left out because there are so many."
        ),
    ]
    truncated: Annotated[
        bool,
        Field(
            description="Whether only the first of the events that match a row were read. The "
            "report reads more, so it may show that the unit got further."
        ),
    ]
    events: list[TracedEventRecord]


class ExplainQuery(AdHocQuery):
    """Query parameters for an explanation."""

    event_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="`eventId` from the response to the event, or the ID that the sender gave "
            "it: `eventId`, `dedupeKey` or `transactionId`.",
        ),
    ]


class ExplainRecord(HeadRecord):
    """Whether one stored event counts in a funnel, and why."""

    event_id: Annotated[str, Field(description="Penstock's own ID of the event.")]
    client_event_id: Annotated[
        str | None, Field(description="The sender's ID of the event; null if none was sent.")
    ]
    unit: Annotated[str | None, Field(description="null if the event has no attempt ID.")]
    counts: Annotated[
        bool | None,
        Field(
            description="Whether it is the entry, is accepted, excludes its unit, or counts for a "
            "diagnostic row. "
            "null if it is not decided, because the trace of its unit ends before it."
        ),
    ]
    selected: Annotated[
        bool | None, Field(description="Like `selected` in a trace; null if it is undecided.")
    ]
    decision: Annotated[
        Decision | None, Field(description="null if it is undecided, like `counts`.")
    ]
    step: int | None
    row: int | None
    explanation: str
    truncated: Annotated[
        bool, Field(description="As in a trace: whether only the first matching events were read.")
    ]
    unit_summary: str | None
