"""The parameters of a statement, and the plan that its parts share.

A funnel becomes one parameterised statement. Each relation reads earlier ones:

    matched   the events that rows match: unit, time, sequence number, a bit per satisfied match,
              a hash per entry value
    units     one row per counted unit (`fold` in general, `packed` where the data allows)
    grouped   units grouped by their entry values
    ranked    the total and the cohorts in order, with typed values

Source: funnel semantics. Comments name its sections. docs/development/statement.md shows one.
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

LARGEST_NUMBER = 2**63 - 1
UNUSABLE = 2**64 - 1
"""Stands for an unusable sequence number; sorts after all usable ones."""


class Strategy(StrEnum):
    """How to fold units. The answer is the same.

    PACKED: the packed fold, and the general one for complex units. AUTO: whichever is faster.
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
    CONVERSION_RATE = "conversionRate"
    MEDIAN_COMPLETION_MINUTES = "medianCompletionMinutes"


@dataclass(frozen=True, slots=True)
class QueryParams:
    """The parameters of a query about a funnel.

    start_ms, end_ms: the reporting period, milliseconds since 1970, both or neither.
    evaluated_at_ms: later events are not read. cohort: exact value by entry property; None if
    missing. sort, descending: the order of the cohorts.
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


@dataclass(frozen=True, slots=True)
class StoredBuild:
    """Stored outcomes that a statement reads.

    name: ID of the build. places: positions of the statement's breakdown properties among the
    stored ones, from 1.
    """

    name: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DataProfile:
    """Facts about the data, known before the query; they decide the statement's parts.

    events: number of retained events. has_provider_events: whether some come from payment
    providers. has_aliases: whether visitors were merged. holds_until_ms: last time until which time
    alone changes no count; None if it never does. history_start_ms: time of the first event at most
    two years before the period; None without such an event. future_until_ms: time of the last event
    after the evaluation; None without such an event. build: stored outcomes that include all of
    these events; None if the statement reads events.
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


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL and its parameters. settings: settings of the engine that only this statement needs."""

    sql: str
    parameters: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowBits:
    """The bits of one row in an event's `mask`.

    all: the bits of all its matches. each: the bit of each match, in order.
    """

    row: Row
    all: int
    each: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subset:
    """The events to read. They must meet all conditions; None is not a condition.

    after_block, until_block: numbers of inserts, exclusive and inclusive. after_ms: they occurred
    after this time. units: keys of their units. share: number of equal shares of the units, and the
    share to read, from 0.
    """

    after_block: int | None = None
    until_block: int | None = None
    after_ms: int | None = None
    units: Sequence[int] | None = None
    share: tuple[int, int] | None = None


class Plan:
    """Everything that the parts of a statement share: bits of matches, parameters, engine types."""

    def __init__(
        self,
        definition: Definition,
        params: QueryParams,
        profile: DataProfile,
        *,
        subset: Subset = Subset(),
        keeps_more: bool = False,
        edges_ms: Sequence[int] | None = None,
    ) -> None:
        """keeps_more: keep a unit's visitors if it has several, and the time of its first event.

        edges_ms: starts of spans, ascending. A visitor counts once for each span that it enters in,
        with its best run among the entries there; None to count it once in all.
        """
        self.definition, self.params, self.profile = definition, params, profile
        self.subset, self.keeps_more = subset, keeps_more
        self.binder = Binder()
        self.rows = _row_bits(definition)
        self.steps = [bits for bits in self.rows if not bits.row.diagnostic]
        self.required = sum(bits.all for bits in self.steps)
        self.breadth = len(definition.breakdown_properties)
        matches = sum(len(bits.each) for bits in self.rows)
        self.mask_type = "UInt64" if matches <= 64 else "UInt256"
        self.by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        # Other events of a provider cannot match: their kind is `provider`.
        self.has_whole_seconds = profile.has_provider_events and any(
            match.type is MatchType.TRANSACTION for row in definition.rows for match in row.matches
        )
        self.spans = None if self.by_attempt else edges_ms
        self.window_ms = None if definition.window_s is None else definition.window_s * 1000

    def mask(self, bits: int) -> str:
        """A constant of the mask's type."""
        return f"to{self.mask_type}('{bits}')" if bits >= 2**63 else f"to{self.mask_type}({bits})"

    def masks(self, each: Sequence[int]) -> str:
        """A list of constants of the mask's type."""
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

    def span(self, at: str) -> str:
        """The start of the span of a time in milliseconds."""
        return f"roundDown({at}, {self.binder.bind('Array(Int64)', list(self.spans or ()))})"

    def window_end(self, entry_ts: str) -> str:
        """The last millisecond of a unit's window."""
        return (
            "toInt64(9223372036854775807)"
            if self.window_ms is None
            else f"{entry_ts} + {self.window_ms}"
        )

    def evaluated_at(self) -> str:
        return self.binder.bind("Int64", self.params.evaluated_at_ms)


def _row_bits(definition: Definition) -> list[RowBits]:
    bits, position = [], 0
    for row in definition.rows:
        each = tuple(1 << (position + index) for index in range(len(row.matches)))
        bits.append(RowBits(row, sum(each), each))
        position += len(each)
    return bits
