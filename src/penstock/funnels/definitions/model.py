"""Value types for funnels that are ready to be evaluated, without goals. No I/O.

A row is one entry of `steps[]`. Its matches are options, if the row needs any of them, or parts, if
an `all_of` row needs all of them.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.errors import Fault
from penstock.funnels.definitions.builtins import (
    ATTEMPT_BUILTINS,
    FIRST_TIME,
    TOUCH_FIELDS,
    cohort_of,
    is_of_visitor,
    trait_of,
)
from penstock.funnels.definitions.operands import Regex
from penstock.funnels.definitions.operators import Comparison

ENTRY, FIRST, LAST = "entry", "first", "last"
"""Events that give the values of a breakdown, beside those of a step with a number: the entry, or
the first or last accepted event that has the property.
"""


class CountingUnit(StrEnum):
    VISITOR = "visitor"
    ATTEMPT = "attempt"


class MatchType(StrEnum):
    """The kind of event that a match accepts, spelled as in the API."""

    PAGEVIEW = "Pageview"
    SCREEN_VIEW = "Screen view"
    EVENT = "Event"
    TRANSACTION = "Transaction"


MAX_COHORTS = 3
"""Maximum number of saved cohorts that the filters of a funnel name, and of filters of a request
that name one.
"""

ANY_NAME = "*"
"""The value of a match of the type `Event` that accepts every name."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on a property of an event."""

    property: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Match:
    """The kind and name that an event must have, and the filters that it must pass."""

    type: MatchType
    value: str
    filters: tuple[Filter, ...] = ()

    @property
    def accepts_any_name(self) -> bool:
        return self.type is MatchType.EVENT and self.value == ANY_NAME

    @property
    def is_pattern(self) -> bool:
        """Whether the match accepts more than one name."""
        return self.accepts_any_name or (self.type is MatchType.PAGEVIEW and "*" in self.value)


def overlap(match: Match, other: Match) -> bool:
    """Whether one event may satisfy both matches, as far as their names show."""
    has_pattern = match.is_pattern or other.is_pattern
    return match.type is other.type and (has_pattern or match.value == other.value)


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of `steps[]`.

    matches: the row's own match first, then the matches of its `or` rows in order.
    exclude: a match excludes the units that await the next step. strict: for a required step: an
    event of another step excludes the units that await it. strict_all: so does any other event.
    saved_as: type and value in the saved definition, before a goal was replaced by its match or a
    page path was normalised. name: the row's own name, for people; it never affects what is counted
    or stored.
    """

    matches: tuple[Match, ...]
    all_of: bool = False
    diagnostic: bool = False
    exclude: bool = False
    strict: bool = False
    strict_all: bool = False
    saved_as: tuple[str, str] | None = None
    name: str | None = field(default=None, compare=False, repr=False)

    @property
    def required(self) -> bool:
        """Whether the row is a step, which units complete."""
        return not (self.diagnostic or self.exclude)


@dataclass(frozen=True, slots=True)
class GoalUse:
    """A goal that rows use. revision: the revision whose match the rows contain."""

    name: str
    id: str
    revision: int


@dataclass(frozen=True, slots=True)
class EntryCondition:
    """A condition on the event with which a unit enters.

    property: the property that it compares; None if tied entries cannot disagree on it. if_missing:
    whether it holds where the property is missing, as it is where tied entries disagree.
    """

    property: str | None
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A funnel that is ready to be evaluated.

    window_s: conversion window in seconds; None if unlimited (visitor funnels only).
    attempt_keys: the properties, traits and `ATTEMPT_BUILTINS` whose values together are the
    attempt ID; empty for visitors. goals: the goals in use, sorted by name. entry_filters:
    conditions of a query on the event with which a unit enters. They choose units and do not change
    their progress.
    internal_traffic: an event that passes any of these filters does not count as an entry.
    in_step_order: whether events with equal times count in the order of the steps, unless numbers
    prove another order (visitor funnels only). repeat: whether every run of a visitor is a unit
    (visitor funnels with a window only). in_any_order: whether steps count in any order.
    breakdown_at: the event that gives the values of the breakdown: one of the constants above, or
    the number of a step from 2.
    """

    rows: tuple[Row, ...]
    counting_unit: CountingUnit
    window_s: int | None
    attempt_keys: tuple[str, ...] = ()
    sequence_property: str | None = None
    breakdown_properties: tuple[str, ...] = ()
    goals: tuple[GoalUse, ...] = ()
    entry_filters: tuple[Filter, ...] = ()
    internal_traffic: tuple[Filter, ...] = ()
    in_step_order: bool = False
    repeat: bool = False
    in_any_order: bool = False
    breakdown_at: str | int = ENTRY

    @property
    def unit_word(self) -> str:
        """The word for one unit: `attempt`, `visitor`, or `run` if every run counts."""
        return "run" if self.repeat else self.counting_unit

    @property
    def enters_once(self) -> bool:
        """Whether each unit has one entry, whatever the period and the filters of a query."""
        return self.counting_unit is CountingUnit.ATTEMPT or self.repeat

    @property
    def entry_conditions(self) -> tuple[EntryCondition, ...]:
        """The conditions of a query on the event with which a unit enters."""
        filters = [
            EntryCondition(item.property, item.comparison.operator.traits.negative)
            for item in self.entry_filters
        ]
        if any(item.property == FIRST_TIME for item in self.entry_filters):
            filters = [EntryCondition(None)]  # The filters hold together, for one match.
        internal = [
            EntryCondition(item.property, not item.comparison.operator.traits.negative)
            for item in self.internal_traffic
        ]
        return (*filters, *internal)

    @property
    def reopens(self) -> bool:
        """Whether a unit may be open although its own window is over or it is excluded: a visitor
        may have entered again.
        """
        return not self.enters_once and (self.window_s is not None or self.excludes)

    def units(self, count: int) -> str:
        """Return a count of units in words: `1 attempt`, `1,200 visitors`."""
        return f"{count:,} {self.unit_word}{'' if count == 1 else 's'}"

    def breakdown_fault(self, field: str) -> Fault:
        """Return the fault of a field that does not name a breakdown property."""
        if not self.breakdown_properties:
            return Fault(field, "not_a_breakdown", "This funnel has no breakdown properties.")
        known = ", ".join(self.breakdown_properties)
        return Fault(
            field, "not_a_breakdown", f"Must be a breakdown property of this funnel: {known}."
        )

    @property
    def has_composite_attempts(self) -> bool:
        """Whether an attempt ID has several parts, or is not a property of events."""
        return len(self.attempt_keys) > 1 or any(map(is_of_visitor, self.attempt_keys))

    @property
    def has_one_visitor(self) -> bool:
        """Whether all events of a unit have the same visitor, so a merge can change its events."""
        return not self.attempt_keys or not set(ATTEMPT_BUILTINS).isdisjoint(self.attempt_keys)

    @property
    def steps(self) -> tuple[Row, ...]:
        """The required rows: steps 1 to n."""
        return tuple(row for row in self.rows if row.required)

    @property
    def is_by_entry(self) -> bool:
        """Whether units are broken down by the values of their entry, if at all."""
        return self.breakdown_at == ENTRY or not self.breakdown_properties

    @property
    def value_rows(self) -> tuple[Row, ...]:
        """The rows whose events give the values of the breakdown."""
        if self.is_by_entry:
            return self.entry_rows
        is_one_step = isinstance(self.breakdown_at, int) and not self.in_any_order
        number = self.breakdown_at if isinstance(self.breakdown_at, int) else 0
        return self.steps[number - 1 : number] if is_one_step else self.steps

    @property
    def shared_steps(self) -> tuple[int, ...]:
        """The indexes of the steps with events that may match others too, as far as names show."""
        return tuple(
            at
            for at, step in enumerate(self.steps)
            if any(
                overlap(match, other)
                for another_at, another in enumerate(self.steps)
                if another_at != at
                for match in step.matches
                for other in another.matches
            )
        )

    @property
    def has_shared_events(self) -> bool:
        """Whether an event may match several steps, as far as names show."""
        return bool(self.shared_steps)

    @property
    def entry_rows(self) -> tuple[Row, ...]:
        """The rows with whose events a unit can enter: step 1, or each step in any order."""
        return self.steps if self.in_any_order else self.steps[:1]

    @property
    def max_readings(self) -> int:
        """Maximum number of readings of events with equal times: in step order, one for each step
        after the first.
        """
        return len(self.steps) - 1 if self.in_step_order else 1

    @property
    def excludes(self) -> bool:
        """Whether an event can exclude a unit: there is an exclusion row or a strict step."""
        return any(row.exclude or row.strict for row in self.rows)

    @property
    def reads_all_events(self) -> bool:
        """Whether events that match no row can affect a unit."""
        return any(row.strict_all for row in self.rows)

    @property
    def diagnostics(self) -> tuple[Row, ...]:
        """The diagnostic rows, in order."""
        return tuple(row for row in self.rows if row.diagnostic)

    @property
    def has_options(self) -> bool:
        """Whether the number of completed steps does not say which matches counted: a step has
        several, or steps count in any order.
        """
        return self.in_any_order or any(len(step.matches) > 1 for step in self.steps)

    @property
    def read_properties(self) -> list[str]:
        """The properties that the funnel reads, for attempts, sequence, cohorts and filters.

        `$first_time` is not among them, because an event may be the first for one match only.
        """
        own = (key for key in self.attempt_keys if key not in ATTEMPT_BUILTINS)
        names = (*own, self.sequence_property, *self.breakdown_properties)
        filtered = [item.property for item in self._filters if item.property != FIRST_TIME]
        return list(dict.fromkeys(name for name in (*names, *filtered) if name is not None))

    @property
    def _filters(self) -> list[Filter]:
        filters = [item for row in self.rows for match in row.matches for item in match.filters]
        return [*filters, *self.entry_filters, *self.internal_traffic]

    @property
    def has_patterns(self) -> bool:
        """Whether a filter matches texts with a regular expression."""
        return any(isinstance(item.comparison.operand, Regex) for item in self._filters)

    @property
    def read_traits(self) -> list[str]:
        """The names of the traits that the funnel reads."""
        names = map(trait_of, self.read_properties)
        return sorted(name for name in names if name is not None)

    @property
    def read_cohorts(self) -> list[str]:
        """The IDs of the saved cohorts that the funnel reads."""
        ids = map(cohort_of, self.read_properties)
        return sorted(cohort_id for cohort_id in ids if cohort_id is not None)

    @property
    def finds_first_times(self) -> bool:
        """Whether a filter depends on earlier events of the visitor."""
        return any(item.property == FIRST_TIME for item in self._filters)

    @property
    def reads_visitors(self) -> bool:
        """Whether matches or cohorts depend on what is known about the visitor of an event.

        This can change without a new event of the visitor.
        """
        return bool(
            self.read_touches or self.read_traits or self.read_cohorts or self.finds_first_times
        )

    @property
    def read_touches(self) -> list[str]:
        """The touches that the funnel reads: `first`, `last`, both or none."""
        names = set(self.read_properties) & TOUCH_FIELDS.keys()
        return sorted({TOUCH_FIELDS[name][0] for name in names})
