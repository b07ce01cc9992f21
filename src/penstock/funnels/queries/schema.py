"""Wire types that all responses about a funnel share. Source: contract, "Funnels"."""

import csv
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from operator import not_
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    MISSING,
    AfterValidator,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from penstock.base.patterns import is_integer
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.ad_hoc import AdHocChanges, BreakdownAt, window_seconds
from penstock.funnels.definitions.filters import (
    check_breakdown_field,
)
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.definitions.schema import (
    MAX_FILTERS,
    FilterIn,
    SavedFilter,
    ValidationContext,
    limit_items,
    saved_filters,
)
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.saved.schema import MAX_BREAKDOWNS
from penstock.http.period import AS_TIME, TIME, InPeriod, read_time_ms
from penstock.http.schema import Iso, Record, RuleBroken, RulesBroken, faults_of, without_nul

CohortFilter = dict[str, JsonValue]
_COHORT = TypeAdapter(CohortFilter)


_FILTERS = TypeAdapter(Annotated[list[FilterIn], limit_items(MAX_FILTERS)])
_ANY_REGEX = ValidationContext({}, lambda _: None, names_cohorts=True)
"""Accepts every pattern: the engine compiles them when the query is answered."""
_NOT_A_LIST = ("json_invalid", "json_type", "list_type")


class PeriodQuery(InPeriod):
    """Query parameters that select units by website, time of entry and revision."""

    REFUSED: ClassVar[Mapping[str, str]] = {
        "countLike": "This question does not count like another tool, whose rules give numbers of "
        "units. Ask for results, trend, compare, periods or units, or leave countLike out."
    }

    website_id: str | None = None
    """Only events of this website."""
    start_at: Annotated[
        int | None,
        AS_TIME,
        Field(description=f"Units that entered at or after this time: {TIME}. Needs endAt."),
    ] = None
    end_at: Annotated[int | None, AS_TIME] = None
    """Units that entered before this time. Needs startAt."""
    as_of: Annotated[int | None, AS_TIME] = None
    """Evaluate as of this time in the past: later events are not read, and windows are open as they
    were then.
    """
    revision: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    """Revision of the definition; by default the current."""

    _read_as_of = field_validator("as_of", mode="before")(read_time_ms)

    def selection(self) -> Selection:
        """Return these parameters as the selection for a query."""
        return Selection(self.website_id, self.start_at, self.end_at, as_of_ms=self.as_of)


class AdHocQuery(PeriodQuery):
    """Query parameters that also change the saved definition for this query."""

    breakdown: Annotated[
        tuple[str, ...] | None,
        WithJsonSchema({"type": "string"}),
        Field(
            description="Breakdown properties instead of the saved ones: at most three names, "
            "separated by commas. A name with a comma stands in double quotes. Empty: none."
        ),
    ] = None
    breakdown_at: Annotated[BreakdownAt, WithJsonSchema({"type": "string"})] | None = None
    """The event that gives the values of the breakdown, instead of the saved one: entry, first or
    last (the first or last accepted event that has the property), or the number of a step.
    """
    filters: Annotated[
        tuple[SavedFilter, ...] | None,
        WithJsonSchema({"type": "string", "contentMediaType": "application/json"}),
    ] = None
    """Only units whose entry event passes these filters: a JSON array of filters as in a step, such
    as [{"property": "plan", "operator": "equals", "value": "pro"}]. They do not change how far a
    unit gets.
    """
    window: str | None = None
    """Conversion window instead of the saved one, such as 30m, 12h or 45d: one minute to 366 days.
    """
    settled: bool = False
    """Only settled units: those whose conversion window has ended at evaluatedAt and that are not
    open.
    """

    segment: Annotated[str, AfterValidator(without_nul)] | None = None
    """ID of a segment: only units whose entry event also passes its filters."""
    internal: bool = False
    """true: also count internal traffic, which reports leave out by default."""

    @field_validator("breakdown", mode="before")
    @classmethod
    def _read_keys(cls, text: Any) -> tuple[str, ...]:
        try:
            keys = next(csv.reader([str(text)], strict=True), [])
        except csv.Error:
            raise RuleBroken(
                "not_a_list", 'Must be names separated by commas, such as plan,"a, b".'
            ) from None
        if len(keys) > MAX_BREAKDOWNS:
            raise RuleBroken("too_many", f"Must have at most {MAX_BREAKDOWNS} names.")
        for key in keys:
            check_breakdown_field(key)
        if len(set(keys)) < len(keys):
            raise RuleBroken("repeated", "Name each property only once.")
        return tuple(keys)

    @field_validator("breakdown_at", mode="before")
    @classmethod
    def _read_step(cls, text: Any) -> Any:
        return int(text) if is_integer(str(text)) else text

    @field_validator("filters", mode="before")
    @classmethod
    def _read_filters(cls, text: Any) -> tuple[SavedFilter, ...]:
        try:
            filters = _FILTERS.validate_json(text, context=_ANY_REGEX)
        except ValidationError as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] in _NOT_A_LIST:
                raise RuleBroken(
                    "not_a_list",
                    'Must be a JSON array of filters, such as [{"property": "plan", '
                    '"operator": "is_set"}].',
                ) from None
            raise RulesBroken(faults_of(error, model=FilterIn)) from None
        return tuple(saved_filters(filters))

    @field_validator("window")
    @classmethod
    def _check_window(cls, window: str | None) -> str | None:
        if window is not None:
            window_seconds(window)
        return window

    @property
    def ad_hoc(self) -> AdHocChanges:
        """Changes of the saved definition for this query."""
        return AdHocChanges(
            self.breakdown,
            self.filters,
            self.window,
            self.settled,
            self.segment,
            self.internal,
            self.breakdown_at,
        )

    def selection(self) -> Selection:
        return replace(super().selection(), ad_hoc=self.ad_hoc)


class CohortQuery(AdHocQuery):
    """Query parameters that also select entry cohorts."""

    cohort: Annotated[
        CohortFilter | None,
        WithJsonSchema({"type": "string", "contentMediaType": "application/json"}),
    ] = None
    """Only these cohorts: a JSON object of breakdown property to exact value, such as {"plan":
    null}.
    """

    @field_validator("cohort", mode="before")
    @classmethod
    def _is_an_object(cls, text: Any) -> Any:
        try:
            return _COHORT.validate_json(text)
        except ValidationError:
            raise RuleBroken(
                "not_an_object", 'Must be a JSON object, such as {"plan": "pro"}.'
            ) from None

    def selection(self) -> Selection:
        return replace(super().selection(), cohort=self.cohort or {})


EventsOf = Annotated[
    Literal["unit", "visitor"],
    Field(
        description="unit: events of the unit, which for an attempt have its ID. visitor: all "
        "events of the attempt's visitors."
    ),
]


class CohortKeyRecord(Record):
    cohort: dict[str, Scalar | None]
    """Typed entry values; null if missing."""
    label: dict[str, Scalar]
    """The same values as labels; Unknown if missing."""


class GapRecord(Record):
    """A deletion, an import or a loss that changed the history a response is based on."""

    kind: str
    website_id: str
    from_: Annotated[Iso, Field(alias="from")]
    to: Iso
    at: Iso
    state: str


class NoteCode(StrEnum):
    """The subject of a coverage note."""

    GAP = "gap"
    LOSS = "loss"
    DISMISSED_GAP = "dismissed_gap"
    NO_EVENTS = "no_events"
    SHORT_HISTORY = "short_history"
    OPEN_WINDOWS = "open_windows"
    NO_WINDOW = "no_window"
    NOT_FRESH = "not_fresh"
    FUTURE_EVENTS = "future_events"
    RUNS_SHIFT = "runs_shift"
    EQUAL_TIMES = "equal_times"
    BREAKDOWN_AT = "breakdown_at"


class CoverageRecord(Record):
    complete: bool
    """Whether the results are complete: no gap and no other note qualifies them."""
    first_event_at: str | None
    last_event_at: str | None
    period_begins_before_history: bool
    """No event is retained from the two years before startAt up to startAt."""
    open_windows: int
    """Units that may still complete."""
    gaps: list[GapRecord]
    notes: list[str]
    """Notes for the reader of the response, in sentences."""
    note_codes: list[NoteCode]
    """Codes of the `notes`, in the same order."""


class PeriodRecord(Record):
    start_at: Iso | None
    end_at: Iso | None


class GoalUseRecord(Record):
    name: str
    id: str
    revision: int
    """Revision of the match that was counted."""


class ServedFrom(StrEnum):
    QUERY = "query"
    OUTCOMES = "outcomes"
    CACHE = "cache"


class DirectReason(StrEnum):
    """The reason why a response was computed from events instead of stored outcomes.

    AD_HOC: the query changes the saved definition in a way that stored outcomes cannot answer.
    BREAKDOWN_AT: the cohorts are not by the values of the entry.
    INTERNAL_TRAFFIC: the query leaves out internal traffic, which stored outcomes contain.
    NOT_STORED: there are none yet. BUILDING: they are being built. BEHIND: they do not include all
    events yet.
    """

    OFF = "off"
    PREVIEW = "preview"
    AD_HOC = "ad_hoc"
    BREAKDOWN_AT = "breakdown_at"
    INTERNAL_TRAFFIC = "internal_traffic"
    VISITOR_FUNNEL = "visitor_funnel"
    VISITOR_KEY = "visitor_key"
    TOO_MANY_MATCHES = "too_many_matches"
    TOUCHES = "touches"
    VISITORS = "visitors"
    PROVIDER_EVENTS = "provider_events"
    NOT_STORED = "not_stored"
    BUILDING = "building"
    BEHIND = "behind"


class NamedSegmentRecord(Record):
    """A segment of a request. revision: revision of the filters that were applied."""

    id: str
    name: str
    revision: int


class AskedRecord(Record):
    """Parameters of a request that replace parts of the saved definition; null if not sent."""

    breakdown: list[str] | None
    breakdown_at: str | int | None
    filters: list[SavedFilter] | None
    window: str | None
    settled: bool
    segment: NamedSegmentRecord | None
    internal_traffic: InternalTraffic | None
    """`leftOut`: units whose entry is internal traffic are left out. `included`: the request has
    `internal=true`. null: the workspace has no filters for internal traffic.
    """


class HeadRecord(Record):
    """The head of every response about a funnel: its parameters, and when it was computed."""

    funnel_id: str | None
    """null in a preview."""
    definition_revision: int | None
    """null in a preview."""
    goals: list[GoalUseRecord]
    """Goals that the definition uses, by name."""
    counting_unit: CountingUnit
    repeat: Annotated[bool, Field(exclude_if=not_)] = False
    """Every run of a visitor is a unit. Present only if true."""
    breakdown_at: str | int | MISSING = MISSING
    """The event that gives the values of the breakdown: first, last or the number of a step.
    Present only if it is not the entry.
    """
    evaluated_at: Iso
    """The time that the results describe, even if they were cached."""
    computed_at: Iso
    """When the engine computed the results."""
    served_from: ServedFrom
    """`outcomes`: counted from stored outcomes of the funnel, which know the same events. `cache`:
    computed for an earlier request; nothing it depends on has changed since.
    """
    direct_reason: DirectReason | None
    """With `query`: why the answer was not counted from stored outcomes. null otherwise, and where
    they are switched off.
    """
    last_known_event_at: Iso | None
    """The latest event that the results include; null if none."""
    period: PeriodRecord
    website_id: str | None
    asked: AskedRecord | None
    """`breakdown`, `breakdownAt`, `filters`, `window`, `settled` and `segment` of the request, and
    what happened to internal traffic; null if there is nothing to say.
    """

    def head(self) -> dict[str, Any]:
        """Return the fields of the head, for another response about the same rows."""
        return {name: getattr(self, name) for name in HeadRecord.model_fields}
