"""Finds the properties and events that are associated with the loss after a step."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import json

from penstock.base.clock import MS_PER_MINUTE
from penstock.base.scalar import Scalar, plain_text, tagged
from penstock.funnels.comparisons.proportions import MIN_UNITS
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.drivers.effects import Effect, Group, rank
from penstock.funnels.drivers.schema import DriverRecord, DriversQuery, DriversRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import check_step
from penstock.funnels.queries.provenance import QueryResult, empty_result, head_of
from penstock.funnels.results.schema import RangeRecord
from penstock.funnels.statements.drivers import entry_groups, event_groups
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.units.after_step import events_after_step

MAX_PROPERTIES = 30
MAX_DRIVERS = 50
_DECIMALS = 6

Row = Mapping[str, Any]


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
    by_entry = runner.fetch(
        context, lambda profile: entry_groups(context.counted(profile), query.step, MIN_UNITS)
    )
    after = events_after_step(runner, context, query.step, query.of)
    by_event: Sequence[Row] = []
    if after is not None:
        by_event = runner.fetch(
            context, lambda profile: event_groups(context.counted(profile), after, MIN_UNITS)
        ).rows
    hidden = {*context.definition.attempt_keys, context.definition.sequence_property}
    effects = rank([*property_groups(by_entry.rows, hidden), *_event_groups(by_event)])
    within_minutes = None if after is None else after.within_ms / MS_PER_MINUTE
    return _record(context, query.step, by_entry, by_entry.rows, within_minutes, effects)


def property_groups(rows: Sequence[Row], hidden: set[str | None]) -> Iterator[Group[Key]]:
    """Yield a group for each property and trait with each frequent value, or without a value.

    rows: the result of `statements.drivers.entry_groups`. hidden: properties to leave out. If two
    groups of a property cover all units, they contain the same information, so only the group with
    the higher loss is yielded.
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
        large = [group for group in groups if not group.is_too_small]
        if len(large) == 2 and sum(group.units for group in large) == total["units"]:
            large = [max(large, key=lambda group: group.share.rate)]
        yield from large


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
    return DriversRecord.model_validate(
        {
            **head_of(context, result.provenance),
            "step": step,
            "atRisk": total["at_risk"],
            "examined": total["units"],
            "lost": total["lost"],
            "withinMinutes": within_minutes,
            "tested": len(effects),
            "data": [_driver(effect) for effect in effects[:MAX_DRIVERS]],
        }
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
        loss_rate=round(group.share.rate, 4),
        other_units=group.other_units,
        other_lost=group.other_lost,
        other_loss_rate=round(group.others.rate, 4),
        difference=round(comparison.difference, _DECIMALS),
        difference_interval=RangeRecord.rounded(comparison.interval, _DECIMALS),
        excess_lost=round(effect.excess, 1),
        test=comparison.method,
        p_value=comparison.p_value,
        p_value_corrected=comparison.corrected,
        clear=comparison.is_clear,
    )
