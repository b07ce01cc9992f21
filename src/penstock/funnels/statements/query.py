"""Statement parameters, and the plan shared by all parts of a statement.

Each funnel becomes one parameterised statement. Its relations build on each other:

    matched   the events that match any row: unit, time, sequence number, a bit for each satisfied
              match, and a hash for each breakdown property
    units     one row per counted unit (`fold` in general, `packed` where the data allows)
    grouped   units grouped by their entry values
    ranked    the total and the sorted cohorts, with typed values

Source: funnel semantics. Comments refer to its sections. docs/development/statement.md shows a
complete statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.base.ids import ScopeId, WebsiteId
from penstock.base.paging import Page
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.model import CountingUnit, Definition, MatchType, Row
from penstock.funnels.statements.binder import Binder
from penstock.warehouse.cluster import Shards

LARGEST_NUMBER = 2**63 - 1
UNUSABLE = 2**64 - 1
"""Placeholder for an unusable sequence number. It sorts after all usable numbers."""


class Strategy(StrEnum):
    """The fold that counts units. The strategy does not affect the results.

    PACKED: use the packed fold, and the general fold for complex units. AUTO: use whichever is
    faster.
    """

    AUTO = "auto"
    PACKED = "packed"
    GENERAL = "general"


class Sort(StrEnum):
    """Figures that cohorts can be sorted by."""

    ENTERED = "entered"
    COMPLETED = "completed"
    PENDING = "pending"
    DROPPED_OFF = "droppedOff"
    EXCLUDED = "excluded"
    CONVERSION_RATE = "conversionRate"
    SETTLED_RATE = "settledRate"
    MEDIAN_COMPLETION_MINUTES = "medianCompletionMinutes"


@dataclass(frozen=True, slots=True)
class Known:
    """The events, merges and traits that were stored at an earlier time.

    received_until_ms: time of receipt of the last event. before_import: an ID that sorts before
    those of later imports, whose events can state an earlier time of receipt. merge, traits:
    versions of the newest merge and of the newest traits.
    """

    received_until_ms: int
    before_import: str
    merge: int
    traits: int


@dataclass(frozen=True, slots=True)
class QueryParams:
    """The parameters of a funnel query.

    start_ms, end_ms: the reporting period in milliseconds since 1970. Both are set, or both are
    None. evaluated_at_ms: events after this time are not read. cohort: exact value for each
    filtered breakdown property; None selects missing values. sort, descending: the order of the
    cohorts. search: text in a value of the cohorts to list, in NFC; empty for all. settled: whether
    to count only settled units. members: the visitors of each saved cohort that the funnel reads
    (`sources.member_texts`). reads_all_traits: whether the rows depend on traits that the
    definition does not name. known: read only what was stored at an earlier time; None for all.
    ages_ms: starts of the parts of age by which to count pending units as well, 0 first; none to
    leave that out.
    """

    website_ids: tuple[WebsiteId, ...]
    scope_ids: tuple[ScopeId, ...]
    start_ms: int | None
    end_ms: int | None
    evaluated_at_ms: int
    cohort: Mapping[str, Scalar | None] = field(default_factory=dict)
    page: Page = field(default_factory=Page)
    sort: Sort = Sort.ENTERED
    descending: bool = True
    search: str = ""
    settled: bool = False
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reads_all_traits: bool = False
    known: Known | None = None
    ages_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredBuild:
    """Stored outcomes that a statement reads.

    name: ID of the build. positions: for each breakdown property of the statement, its position
    among the stored properties, from 1. server: the server of a cluster that has all its rows.
    """

    name: str
    positions: tuple[int, ...]
    server: str = ""


@dataclass(frozen=True, slots=True)
class DataProfile:
    """Facts about the data that are known before the query and determine the statement's parts.

    events: number of retained events. has_provider_events: whether some of them come from payment
    providers. has_aliases: whether visitors were merged. holds_until_ms: until this time, counts
    only change if data change; None if there is no such limit. history_start_ms: time of the first
    event within the two years before the period; None if there is no such event. future_until_ms:
    time of the last event after the evaluation time; None if there is no such event. build: stored
    outcomes that include all of these events; None if the statement reads events. shards: the
    shards of the event store; None if it has fewer than two.
    """

    events: int
    first_event_ms: int | None
    last_event_ms: int | None
    has_provider_events: bool
    has_aliases: bool
    holds_until_ms: int | None = None
    history_start_ms: int | None = None
    future_until_ms: int | None = None
    build: StoredBuild | None = None
    shards: Shards | None = None


@dataclass(frozen=True, slots=True)
class SharedFold:
    """Two statements for the shards of a cluster, with the parameters of the whole statement and
    `exchange`, a number that identifies the run.

    send: sends the matching events to the shards of their units. fold: returns the same rows as the
    whole statement from what the shards make of them.
    """

    send: str
    fold: str


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL and its parameters. settings: engine settings for this statement only.

    shared: how shards share the fold; None if they do not.
    """

    sql: str
    parameters: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    shared: SharedFold | None = None


@dataclass(frozen=True, slots=True)
class RowBits:
    """The bits of one row in an event's `mask`.

    all: the bits of all matches, combined. each: the bit of each match, in order.
    """

    row: Row
    all: int
    each: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subset:
    """Conditions for the events to read. Events must meet all conditions that are not None.

    after_shipment, until_shipment: numbers of shipments; the first is exclusive, the second
    inclusive.
    after_ms: read only events that occurred after this time. units: read only events of units with
    these keys. share: number of equal shares into which units are divided, and the index of the
    share to read.
    """

    after_shipment: int | None = None
    until_shipment: int | None = None
    after_ms: int | None = None
    units: Sequence[int] | None = None
    share: tuple[int, int] | None = None


class Plan:
    """Data shared by all parts of a statement: match bits, parameters and engine types.

    entry_bits, entry_matches: the matches with whose events a unit can enter, as bits of a mask and
    in order. any_event: the bit of every event that a sender sent, whether or not it matches a row;
    0 if such events are not read.
    """

    def __init__(
        self,
        definition: Definition,
        params: QueryParams,
        profile: DataProfile,
        *,
        subset: Subset = Subset(),
        keeps_visitors: bool = False,
        edges_ms: Sequence[int] | None = None,
        tick_ms: int = 1,
    ) -> None:
        """Create a plan.

        keeps_visitors: whether to keep a unit's visitors if it has several, and the time of its
        first event. edges_ms: starts of spans, in ascending order. A visitor counts once for each
        span that it enters in, with the best of its entries there; None to count each visitor once
        overall. tick_ms: times of events are rounded down to a multiple of it.
        """
        self.definition, self.params, self.profile = definition, params, profile
        self.subset, self.keeps_visitors, self.tick_ms = subset, keeps_visitors, tick_ms
        self.binder = Binder()
        self.rows = _row_bits(definition)
        self.steps = [bits for bits in self.rows if bits.row.required]
        self.required = sum(bits.all for bits in self.steps)
        entry_rows = self.steps[: len(definition.entry_rows)]
        self.entry_bits = sum(bits.all for bits in entry_rows)
        self.entry_matches = [match for bits in entry_rows for match in bits.row.matches]
        self.excludes = definition.excludes
        self.exclusions = _exclusions(self.rows)
        self.breadth = len(definition.breakdown_properties)
        matches = sum(len(bits.each) for bits in self.rows)
        self.any_event = 1 << matches if definition.reads_all_events else 0
        bits_of_mask = matches + definition.reads_all_events
        self.mask_type = "UInt64" if bits_of_mask <= 64 else "UInt256"
        self.by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        self.repeats = definition.repeat
        self.enters_once = definition.enters_once
        self.reopens = definition.reopens
        # Other payment provider events have the kind `provider`, which matches nothing.
        self.has_whole_seconds = profile.has_provider_events and (
            definition.reads_all_events
            or any(
                match.type is MatchType.TRANSACTION
                for row in definition.rows
                for match in row.matches
            )
        )
        self.spans = None if self.enters_once else edges_ms
        self.window_ms = None if definition.window_s is None else definition.window_s * 1000
        self.has_entry_filters = bool(definition.entry_filters or definition.internal_traffic)

    def mask(self, bits: int) -> str:
        """Return a constant of the mask's type."""
        return f"to{self.mask_type}('{bits}')" if bits >= 2**63 else f"to{self.mask_type}({bits})"

    def masks(self, each: Sequence[int]) -> str:
        """Return a list of constants of the mask's type."""
        return self.binder.bind(f"Array({self.mask_type})", list(each))

    def overlaps(self, mask: str, bits: int) -> str:
        """Whether a mask has any of the bits."""
        if self.mask_type == "UInt64" and bits.bit_count() == 1:
            return f"bitTest({mask}, {bits.bit_length() - 1})"
        return f"bitAnd({mask}, {bits if bits < 2**64 else self.mask(bits)}) != 0"

    def in_period(self, at: str) -> str:
        """Whether a time in milliseconds lies in the reporting period."""
        if self.params.start_ms is None:
            return "1"
        start, end = (
            self.binder.bind("Int64", at_ms) for at_ms in (self.params.start_ms, self.params.end_ms)
        )
        return f"({at} >= {start} AND {at} < {end})"

    def may_enter(self, event: str = "") -> str:
        """Whether an event may be an entry: an expression that starts with AND, or nothing.

        Source: semantics, "Filters of a question". event: name of a tuple with the event's fields,
        followed by a dot.
        """
        return f" AND {event}passes" if self.has_entry_filters else ""

    def has_settled(self, window_end: str) -> str:
        """Whether a unit may count: an expression that starts with AND, or nothing.

        Without the query parameter `settled`, all units count. It reads the column `open`.
        """
        if not self.params.settled:
            return ""
        return f" AND {window_end} < {self.evaluated_at()} AND NOT open"

    def span(self, at: str) -> str:
        """Return the start of the span that contains a time in milliseconds."""
        return f"roundDown({at}, {self.binder.bind('Array(Int64)', list(self.spans or ()))})"

    def window_end(self, entry_ts: str) -> str:
        """Return the last millisecond of the conversion window of a unit with this entry."""
        return (
            "toInt64(9223372036854775807)"
            if self.window_ms is None
            else f"{entry_ts} + {self.window_ms}"
        )

    def evaluated_at(self) -> str:
        return self.binder.bind("Int64", self.params.evaluated_at_ms)


def _exclusions(rows: Sequence[RowBits]) -> list[int]:
    """Return the matches of the exclusion row after each step but the last; 0 if it has none."""
    exclusions: list[int] = []
    for bits in rows:
        if bits.row.required:
            exclusions.append(0)
        elif bits.row.exclude:
            exclusions[-1] = bits.all
    return exclusions[:-1]


def _row_bits(definition: Definition) -> list[RowBits]:
    bits, position = [], 0
    for row in definition.rows:
        each = tuple(1 << (position + index) for index in range(len(row.matches)))
        bits.append(RowBits(row, sum(each), each))
        position += len(each)
    return bits
