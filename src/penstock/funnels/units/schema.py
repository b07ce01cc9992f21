"""Wire types for single units: lists, traces and explanations."""

from typing import Annotated, Any, Literal

from pydantic import (
    MISSING,
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from penstock.base.event_limits import MAX_PATH_CHARS
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.row_files import RowFormat
from penstock.base.scalar import Scalar
from penstock.base.table_files import TableFormat
from penstock.funnels.other_tools.schema import DiffersQuery, LikeQuery, UnitThereRecord
from penstock.funnels.queries.schema import AdHocQuery, CohortQuery, HeadRecord
from penstock.funnels.statements.units import Outcome, Quality, UnitSort
from penstock.funnels.units.path import Decision
from penstock.http.schema import Record, RuleBroken, faults_of, without_nul


def _in_list(item: Any) -> BeforeValidator:
    """Return a validator of a query parameter with one or more items, separated by commas."""
    adapter: TypeAdapter[Any] = TypeAdapter(item)

    def read(text: Any) -> Any:
        try:
            return tuple(adapter.validate_python(part) for part in str(text).split(","))
        except ValidationError as error:
            fault, *_ = faults_of(error)
            raise RuleBroken(fault.code, fault.message) from None

    return BeforeValidator(read)


Steps = Annotated[
    tuple[int, ...],
    _in_list(Annotated[int, Field(ge=1, le=20)]),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(,\d+)*$"}),
]
Outcomes = Annotated[tuple[Outcome, ...], _in_list(Outcome), WithJsonSchema({"type": "string"})]


class UnitListQuery(CohortQuery, DiffersQuery):
    """Query parameters that select and sort units. Listed units meet all of the conditions."""

    step: Steps | None = None
    """Units that reached this step, or one of several, separated by commas. With the outcome
    pending, droppedOff or excluded: units that got exactly this far.
    """
    option: Annotated[int | None, Field(ge=0, le=30)] = None
    """Units that count for this option of the step. Requires one `step`."""
    outcome: Outcomes | None = None
    """Units with this outcome, or with one of several, separated by commas: completed, pending,
    droppedOff or excluded.
    """
    diagnostic: Annotated[int | None, Field(ge=0, le=29)] = None
    """Units with an event that this diagnostic row (its `row`) counts."""
    quality: Quality | None = None
    """Units with this data-quality problem."""
    property: str | None = None
    """Breakdown property for the quality unknownEntryValue or conflict; by default, any property.
    """
    event_name: (
        Annotated[str, Field(max_length=MAX_PATH_CHARS), AfterValidator(without_nul)] | None
    ) = None
    """Units with this event soon after the step: the units of an event among the drivers of a loss.
    Requires one `step` and `eventType`.
    """
    event_type: Literal["Pageview", "Screen view", "Event", "Transaction", "Provider"] | None = None
    """Type of the event. Requires `eventName`."""
    has_event: bool = True
    """false: the units without the event that are compared with those that have it. Requires
    `eventName`.
    """
    of: Literal["unit", "visitor"] = "unit"
    """unit: `eventName` is an event of the unit, which for an attempt has its ID. visitor: any
    event of the attempt's visitors.
    """
    sort: Annotated[
        UnitSort,
        Field(
            description="Time that sorts the list: of the entry, of the completion (units that did "
            "not complete come last), or of the unit's last event."
        ),
    ] = UnitSort.ENTRY
    order: Literal["desc", "asc"] = "desc"
    """Descending or ascending order."""


def only_step(query: UnitListQuery) -> int | None:
    """Return the step of a list; None if it has none, or several."""
    return query.step[0] if query.step is not None and len(query.step) == 1 else None


class UnitsQuery(UnitListQuery):
    """Query parameters for a page of a list of units."""

    cursor: Annotated[str | None, Field(max_length=200)] = None
    """`nextCursor` of the previous page."""
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    """Units per page, 1 to 100."""


class UnitExportQuery(UnitListQuery):
    """Query parameters for a file with a list of units. The page of the list is ignored."""

    format: TableFormat = "csv"
    """File format."""
    cursor: str | None = None
    """Ignored: a file has all pages."""
    page_size: str | None = None
    """Ignored: a file has all pages."""


class UnitTableQuery(CohortQuery):
    """Query parameters for the table of all units."""

    format: RowFormat = RowFormat.PARQUET
    """Format of the file."""


class UnitRecord(Record):
    """One counted unit."""

    unit: str
    """The attempt ID, or the canonical visitor's ID."""
    user_id: str | None
    """The user of the visitor; for an attempt, of the visitor of its entry."""
    person: str | None
    """The user's name: the trait that the workspace chose, or the user ID. null without a user."""
    entry_at: str
    window_ends_at: str | None
    """End of the conversion window; null if it never ends."""
    reached: int
    """Steps completed, from 1."""
    outcome: Outcome
    completed_at: str | None
    excluded_at: str | None
    last_activity_at: str | None
    """Time of the unit's last event, whether or not it matches a step. null if none of its events
    is retained any more.
    """
    cohort: dict[str, Scalar | None]
    sequence_skips: int
    unordered_ties: int
    assumed_order: int
    invalid_sequence_values: int
    tied_entry: bool
    conflicting_entry_values: list[str]
    """Breakdown properties that have another value in a later event."""
    several_visitors: bool
    coarse_times: int
    """Provider events whose whole second contains another event of the unit."""
    there: UnitThereRecord | MISSING = MISSING
    """The unit by the rules of another tool. Present only with `differs=true`."""


class UnitsRecord(HeadRecord):
    """A page of counted units."""

    total: int
    """Units on all pages."""
    next_cursor: str | None
    """null on the last page."""
    data: list[UnitRecord]


class EntryValueRecord(Record):
    """The origin of an entry value.

    how: `entryEvent`, `event` for another one (`breakdownAt`), or whether tied events agree,
    disagree or all lack the value.
    """

    value: Scalar | None
    how: Literal["entryEvent", "event", "agreed", "disagreed", "missing"]
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
    client_event_id: str | None
    """The sender's ID of the event; null if none was sent."""
    occurred_at: str
    whole_second: bool
    """Its provider sends whole seconds: it counts at the start of its second for step 1, and at the
    end for later steps.
    """
    type: str
    name: str
    source: str
    visitor_id: str
    """The canonical visitor."""
    sequence_number: int | None
    invalid_sequence_value: bool
    properties: dict[str, JsonValue]
    """Properties that the funnel reads; null for an object or array."""
    decision: Decision
    step: int | None
    """The required step of the decision; for an exclusion, the step after which it excluded the
    unit.
    """
    row: int | None
    diagnostic_rows: list[int]
    """Diagnostic rows that count the event."""
    explanation: str


class DecisionThereRecord(Record):
    """The decision on an event by the rules of another tool."""

    event_id: str
    decision: Decision
    step: int | None
    explanation: str


class TracedThereRecord(UnitThereRecord):
    """A unit by the rules of another tool, with the decision on each of its events."""

    events: list[DecisionThereRecord] | None
    """null for modes of windowFunnel that only the engine's function knows, and for exclusions of
    PostHog and Mixpanel.
    """


class TraceQuery(AdHocQuery, LikeQuery):
    """Query parameters for a trace."""


class TraceRecord(HeadRecord):
    """One unit: its outcome, and the decision on each of its events."""

    unit: str
    user_id: str | None
    """The user of the visitor; for an attempt, of the visitor of its entry."""
    person: str | None
    """The user's name, as in a list of units."""
    selected: bool
    """Whether the unit is in the report: it entered in the period, and passes the `filters`,
    `segment` and `settled` of the request, without internal traffic.
    """
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
    truncated: bool
    """Whether only the first of the events that match a row were read. The report reads more, so it
    may show that the unit got further.
    """
    events: list[TracedEventRecord]
    there: TracedThereRecord | MISSING = MISSING
    """The same unit by the rules of another tool. Present only with `countLike`."""


class ExplainQuery(AdHocQuery):
    """Query parameters for an explanation."""

    event_id: Annotated[str, Field(min_length=1, max_length=200)]
    """`eventId` from the response to the event, or the ID that the sender gave it: `eventId`,
    `dedupeKey` or `transactionId`.
    """


class ExplainRecord(HeadRecord):
    """Whether one stored event counts in a funnel, and why."""

    event_id: str
    """Penstock's own ID of the event."""
    client_event_id: str | None
    """The sender's ID of the event; null if none was sent."""
    unit: str | None
    """null if the event has no attempt ID."""
    counts: bool | None
    """Whether it is the entry, is accepted, excludes its unit, or counts for a diagnostic row. null
    if it is not decided, because the trace of its unit ends before it.
    """
    selected: bool | None
    """Like `selected` in a trace; null if it is undecided."""
    decision: Decision | None
    """null if it is undecided, like `counts`."""
    step: int | None
    row: int | None
    explanation: str
    truncated: bool
    """As in a trace: whether only the first matching events were read."""
    unit_summary: str | None
