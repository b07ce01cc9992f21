"""Drivers: the properties and events that are associated with the loss after a step."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import json
from pydantic import Field

from penstock.base.clock import MS_PER_MINUTE
from penstock.base.rates import Share
from penstock.base.scalar import Scalar, plain_text, tagged
from penstock.funnels.comparisons.proportions import MIN_UNITS, Comparison, compare_all
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import check_step
from penstock.funnels.queries.provenance import QueryResult, empty_result, head_of
from penstock.funnels.queries.schema import CohortQuery, EventsOf, HeadRecord
from penstock.funnels.results.schema import RangeRecord
from penstock.funnels.statements.drivers import entry_groups, event_groups
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.units.after_step import events_after_step
from penstock.http.schema import Rate, Record

MAX_PROPERTIES = 30
MAX_DRIVERS = 50
_DECIMALS = 6

Row = Mapping[str, Any]
K = TypeVar("K", bound=Hashable)


class DriversQuery(CohortQuery):
    """The query parameters for drivers."""

    step: Annotated[int, Field(ge=1, le=19)]
    """The loss after this step: before the next one."""
    of: EventsOf = "unit"


class DriverRecord(Record):
    """Compares units that have a property value at entry, a trait of their visitor, or an event
    soon after the step, with all other units.
    """

    kind: Literal["property", "event"]
    """property: a property of the entry event, or a trait of its visitor."""
    property: str | None
    """Property of the entry event, or trait of its visitor, such as `$trait.plan`; null for an
    event.
    """
    value: Scalar | None
    """Value of the property at entry, or of the trait at evaluatedAt; null if it is missing, and
    for an event.
    """
    event_type: str | None
    """null for a property."""
    name: str | None
    """Name of the event; null for a property."""
    filter: SavedFilter | None
    """Send it in `filters` to select only these units; null for an event. The list of units accepts
    an event as `eventType` and `eventName`, with the same `step` and `of`.
    """
    units: int
    lost: int
    """Those of `units` that dropped off after the step."""
    loss_rate: Rate
    other_units: int
    other_lost: int
    other_loss_rate: Rate
    difference: float
    """lossRate minus otherLossRate."""
    difference_interval: RangeRecord
    """95% confidence interval of the difference (Newcombe)."""
    excess_lost: float
    """Lost units beyond those that otherLossRate would give; negative if fewer were lost. Effects
    are ranked by its size.
    """
    test: str
    """z or fisher, as in a comparison."""
    p_value: float
    """Two-sided p-value of this group only."""
    p_value_corrected: float
    """p-value corrected for the number of `tested` groups (Holm)."""
    clear: bool
    """Whether pValueCorrected is below 0.05."""


class DriversRecord(HeadRecord):
    """Properties, traits and events associated with the loss after a step, over settled units.

    An effect shows an association, not a cause. Without a conversion window, no unit is settled,
    and `data` is empty.
    """

    step: int
    at_risk: int
    """Settled units that reached the step."""
    examined: int
    """Those that were examined: a random part if there are over 100,000."""
    lost: int
    """Examined units that got no further."""
    within_minutes: float | None
    """Events count within this time after the step, the median time until the next step. Units that
    continued sooner are left out, because units that stay longer have more time for events. null if
    no unit continued.
    """
    tested: int
    """Number of groups with at least 30 units in it and outside it."""
    data: list[DriverRecord]
    """At most 50 groups: clear effects first, then the largest."""


@dataclass(frozen=True, slots=True)
class Group(Generic[K]):
    """Units at risk that have something in common.

    key: the thing that they have in common. lost, units: the number of lost units in the group, and
    of all its units. other_lost, other_units: the same numbers for all other units.
    """

    key: K
    lost: int
    units: int
    other_lost: int
    other_units: int

    @property
    def is_too_small(self) -> bool:
        return min(self.units, self.other_units) < MIN_UNITS

    @property
    def share(self) -> Share:
        return Share(self.lost, self.units)

    @property
    def others(self) -> Share:
        return Share(self.other_lost, self.other_units)

    @property
    def passed(self) -> Share:
        """The units that got further, of all in the group."""
        return Share(self.units - self.lost, self.units)

    @property
    def others_passed(self) -> Share:
        return Share(self.other_units - self.other_lost, self.other_units)


@dataclass(frozen=True, slots=True)
class Effect(Generic[K]):
    """A group, and its rate of loss compared with that of all others."""

    group: Group[K]
    comparison: Comparison

    @property
    def excess(self) -> float:
        """Number of lost units above the number expected at the rate of all other units; negative
        if fewer are lost.
        """
        return self.comparison.difference * self.group.units


def rank(groups: Iterable[Group[K]]) -> list[Effect[K]]:
    """Test all groups that are large enough, and return the clearest and largest effects first.

    The p-values are corrected for the number of tested groups (Holm). Clear effects come first,
    then the others. Both are sorted by the number of units that they concern.
    """
    tested = [group for group in groups if not group.is_too_small]
    comparisons = compare_all([(group.share, group.others) for group in tested])
    effects = map(Effect, tested, comparisons)
    return sorted(effects, key=lambda effect: (not effect.comparison.is_clear, -abs(effect.excess)))


class Property(NamedTuple):
    """A property of the entry event, or a trait of its visitor. value: None if it is missing."""

    name: str
    value: Scalar | None


class Event(NamedTuple):
    """An event after the step. type: as in the API."""

    type: str
    name: str


Key = Property | Event


def read_drivers(
    runner: FunnelQueryRunner, context: QueryContext, query: DriversQuery
) -> DriversRecord:
    """Returns the entry properties, traits of visitors and events that are associated with the loss
    after a step.

    They are ranked by their effect, with confidence intervals and corrected p-values.
    """
    check_step(context.definition, query.step)
    if context.definition.window_s is None:
        return _record(context, query.step, empty_result(context), [], None, [])
    context = runner.with_all_traits(context)
    by_entry = _fetch_entry_groups(runner, context, query.step)
    after = events_after_step(runner, context, query.step, query.of)
    by_event: Sequence[Row] = []
    if after is not None:
        by_event = runner.fetch(
            context, lambda profile: event_groups(context.counted(profile), after, MIN_UNITS)
        ).rows
    groups = property_groups(by_entry.rows, _hidden(context))
    effects = rank([*groups, *_event_groups(by_event)])
    within_minutes = None if after is None else after.within_ms / MS_PER_MINUTE
    return _record(context, query.step, by_entry, by_entry.rows, within_minutes, effects)


def read_entry_groups(
    runner: FunnelQueryRunner, context: QueryContext, step: int
) -> list[Group[Key]]:
    """Return the loss after a step for each frequent value of each property at entry and trait,
    with at least 30 units in it and outside it.
    """
    context = runner.with_all_traits(context)
    rows = _fetch_entry_groups(runner, context, step).rows
    return [group for groups in groups_by_property(rows, _hidden(context)) for group in groups]


def _fetch_entry_groups(runner: FunnelQueryRunner, context: QueryContext, step: int) -> QueryResult:
    return runner.fetch(
        context, lambda profile: entry_groups(context.counted(profile), step, MIN_UNITS)
    )


def _hidden(context: QueryContext) -> set[str | None]:
    """Return the properties that name units instead of describing them."""
    return {*context.definition.attempt_keys, context.definition.sequence_property}


def groups_by_property(rows: Sequence[Row], hidden: set[str | None]) -> Iterator[list[Group[Key]]]:
    """Yield for each property and trait the groups with each frequent value, and without a value.

    rows: the result of `statements.drivers.entry_groups`. hidden: properties to leave out.
    """
    if not rows:
        return
    total, *others = rows
    by_name: dict[str, list[Row]] = {}
    for row in others:
        if row["name"] not in hidden:
            by_name.setdefault(row["name"], []).append(row)
    for name, (present, *values) in list(by_name.items())[:MAX_PROPERTIES]:
        groups = [_group(Property(name, value), row, total) for value, row in _typed_values(values)]
        missing = {key: total[key] - present[key] for key in ("units", "lost")}
        groups.append(_group(Property(name, None), missing, total))
        yield [group for group in groups if not group.is_too_small]


def property_groups(rows: Sequence[Row], hidden: set[str | None]) -> Iterator[Group[Key]]:
    """Yield the groups of all properties. If two groups of a property cover all units, they contain
    the same information, so only the group with the higher loss is yielded.
    """
    for groups in groups_by_property(rows, hidden):
        if len(groups) == 2 and sum(group.units for group in groups) == rows[0]["units"]:
            yield max(groups, key=lambda group: group.share.rate)
        else:
            yield from groups


def _typed_values(rows: Sequence[Row]) -> Iterator[tuple[Scalar, Row]]:
    """Yield the values of a property. The figures of different spellings of a value, such as 1 and
    1.0, are added up.
    """
    merged: dict[str, tuple[Scalar, dict[str, int]]] = {}
    for row in rows:
        value: Scalar = json.decode(row["value"])
        _, counts = merged.setdefault(tagged(value), (value, {"units": 0, "lost": 0}))
        for key in counts:
            counts[key] += row[key]
    yield from merged.values()


def _event_groups(rows: Sequence[Row]) -> Iterator[Group[Key]]:
    total = next((row for row in rows if not row["kind"]), None)
    for row in rows:
        if total is not None and row["kind"]:
            yield _group(Event(TYPES[row["kind"]], row["name"]), row, total)


def _group(key: Key, row: Row, total: Row) -> Group[Key]:
    return Group(
        key,
        lost=row["lost"],
        units=row["units"],
        other_lost=total["lost"] - row["lost"],
        other_units=total["units"] - row["units"],
    )


def _record(
    context: QueryContext,
    step: int,
    result: QueryResult,
    rows: Sequence[Row],
    within_minutes: float | None,
    effects: Sequence[Effect[Key]],
) -> DriversRecord:
    total = rows[0] if rows else {"at_risk": 0, "units": 0, "lost": 0}
    return DriversRecord(
        **head_of(context, result.provenance),
        step=step,
        at_risk=total["at_risk"],
        examined=total["units"],
        lost=total["lost"],
        within_minutes=within_minutes,
        tested=len(effects),
        data=[_driver(effect) for effect in effects[:MAX_DRIVERS]],
    )


def _filter(entry: Property) -> SavedFilter:
    if entry.value is None:
        return SavedFilter(property=entry.name, operator=Operator.IS_NOT_SET, value="")
    return SavedFilter(property=entry.name, operator=Operator.EQUALS, value=plain_text(entry.value))


def _driver(effect: Effect[Key]) -> DriverRecord:
    group, comparison = effect.group, effect.comparison
    is_property = isinstance(group.key, Property)
    return DriverRecord(
        kind="property" if is_property else "event",
        property=group.key.name if is_property else None,
        value=group.key.value if isinstance(group.key, Property) else None,
        event_type=group.key.type if isinstance(group.key, Event) else None,
        name=None if is_property else group.key.name,
        filter=_filter(group.key) if isinstance(group.key, Property) else None,
        units=group.units,
        lost=group.lost,
        loss_rate=group.share.rate,
        other_units=group.other_units,
        other_lost=group.other_lost,
        other_loss_rate=group.others.rate,
        difference=round(comparison.difference, _DECIMALS),
        difference_interval=RangeRecord.rounded(comparison.interval, _DECIMALS),
        excess_lost=round(effect.excess, 1),
        test=comparison.method,
        p_value=comparison.p_value,
        p_value_corrected=comparison.corrected,
        clear=comparison.is_clear,
    )
