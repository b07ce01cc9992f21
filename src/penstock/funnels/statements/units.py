"""Statements over counted units: lists, trends, times between steps, and next events.

The docstrings describe each statement's columns. Source: contract, "Funnels".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements.cohorts import in_cohort_filter, texts_join
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.drivers import EventCondition, units_by_event
from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.figures import waiting_ages
from penstock.funnels.statements.query import (
    LARGEST_NUMBER,
    DataProfile,
    Plan,
    QueryParams,
    Statement,
)
from penstock.funnels.statements.relations import with_relations
from penstock.funnels.statements.unit_events import chosen_columns, unit_events

_ELIGIBLE = "excluded_after < 0"
"""Whether a unit is not excluded."""

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95)


class Outcome(StrEnum):
    """The outcome of a unit. Source: semantics, "Outcome"."""

    COMPLETED = "completed"
    PENDING = "pending"
    DROPPED_OFF = "droppedOff"
    EXCLUDED = "excluded"


class Quality(StrEnum):
    """Data problems that a unit can have, named after the fields of `dataQuality`."""

    SEQUENCE_SKIP = "sequenceSkip"
    UNORDERED_TIE = "unorderedTie"
    INVALID_SEQUENCE_VALUE = "invalidSequenceValue"
    ORDERING_ISSUE = "orderingIssue"
    TIED_ENTRY = "tiedEntry"
    UNKNOWN_ENTRY_VALUE = "unknownEntryValue"
    CONFLICT = "conflict"
    SEVERAL_VISITORS = "severalVisitors"
    OVER_LIMIT = "overLimit"
    COARSE_TIME = "coarseTime"
    ASSUMED_ORDER = "assumedOrder"


@dataclass(frozen=True, slots=True)
class UnitConditions:
    """Conditions that a unit must all meet.

    steps, outcomes: the unit reached one of the steps, and has one of the outcomes; empty for any.
    With an outcome other than completed, it must have reached exactly one of the steps. option:
    index of an option of the only step. diagnostic: number of a diagnostic row, from 1. property:
    number of a breakdown property, from 1, for data problems that concern one property; 0 means any
    property. event: an event that the unit has or lacks. units: keys of the units; None for all.
    absent: attempts among them that the rules here leave out, and that entered again later.
    """

    steps: tuple[int, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    option: int | None = None
    diagnostic: int | None = None
    quality: Quality | None = None
    property: int = 0
    event: EventCondition | None = None
    units: Sequence[int] | None = None
    absent: Sequence[int] = ()


class UnitSort(StrEnum):
    """Times that units can be sorted by."""

    ENTRY = "entry"
    COMPLETION = "completion"
    LAST_ACTIVITY = "lastActivity"


@dataclass(frozen=True, slots=True)
class UnitOrder:
    """The order of a list: by a time, then by the unit's key. Units without the time come last."""

    sort: UnitSort = UnitSort.ENTRY
    descending: bool = True

    @property
    def direction(self) -> str:
        return "DESC" if self.descending else "ASC"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the list. The page starts after the unit with this time and key.

    at_ms: the time that sorts the list, as in the column `sorted_by`.
    """

    at_ms: int
    unit: int


def units_page(
    counted: CountedUnits,
    units: UnitConditions,
    order: UnitOrder,
    after: Position | None,
    size: int,
) -> Statement:
    """Select a page of units.

    Columns: all columns of `counted`, `texts` (tagged entry values), `total` (number of units on
    all pages) and `sorted_by` (the time that sorts the list, in milliseconds).
    """
    plan = counted.plan
    if units.absent:
        counted.add_by_entries_of_period(units.absent)
    relations, condition = conditions_on(plan, units)
    source, at = f"counted WHERE {condition}", _sort_time(plan, order)
    if order.sort is UnitSort.LAST_ACTIVITY:
        chosen = f"SELECT {chosen_columns(plan)} FROM {source}"
        active, events = unit_events(plan, chosen, (), of_visitors=False)
        relations |= active
        source = f"""counted LEFT ANY JOIN (
                SELECT unit, max(ts) AS last_ts FROM ({events}) GROUP BY unit
            ) AS active ON counted.unit = active.unit WHERE {condition}"""
    beyond = "1"
    if after is not None:
        at_ms, unit = (
            plan.binder.bind("Int64", after.at_ms),
            plan.binder.bind("UInt64", after.unit),
        )
        beyond = f"(sorted_by, unit) {'<' if order.descending else '>'} ({at_ms}, {unit})"
    columns = ", ".join(f"counted.{column} AS {column}" for column in counted.columns)
    ordered = f"ORDER BY sorted_by {order.direction}, unit {order.direction}"
    page = f"""
        SELECT * FROM (
            SELECT {columns}, {at} AS sorted_by, count() OVER () AS total FROM {source})
        WHERE {beyond} {ordered} LIMIT {plan.binder.bind("UInt64", size)}"""
    if not plan.breadth:
        return counted.statement(
            f"SELECT *, CAST([], 'Array(String)') AS texts FROM ({page}) {ordered}", **relations
        )
    texts, join = texts_join(plan, "page")
    return counted.statement(
        f"""
        SELECT page.*, {texts} AS texts
        FROM ({page}) AS page {join}
        {ordered}""",
        **relations,
    )


def chosen_units(counted: CountedUnits, units: Sequence[int]) -> Statement:
    """Select some units by their keys. Columns: those of `counted`, and `texts`, as in
    `units_page`.
    """
    plan = counted.plan
    keys = plan.binder.bind("Array(UInt64)", list(units))
    chosen = f"SELECT {', '.join(counted.columns)} FROM counted WHERE unit IN {keys}"
    texts, join = texts_join(plan, "chosen") if plan.breadth else ("CAST([], 'Array(String)')", "")
    return counted.statement(f"SELECT chosen.*, {texts} AS texts FROM ({chosen}) AS chosen {join}")


def _sort_time(plan: Plan, order: UnitOrder) -> str:
    """Return the time that sorts units. Units without it get a time that sorts them last."""
    last = "toInt64(-1)" if order.descending else f"toInt64({LARGEST_NUMBER})"
    return {
        UnitSort.ENTRY: "entry_ts",
        UnitSort.COMPLETION: f"if(reached = {len(plan.steps)}, done_ts, {last})",
        UnitSort.LAST_ACTIVITY: "active.last_ts",
    }[order.sort]


def last_activity(
    definition: Definition, params: QueryParams, profile: DataProfile, units: Sequence[int]
) -> Statement:
    """Select the time of each unit's last event, whether or not it matches a row.

    units: keys of units. Columns: unit, last_ts.
    """
    plan = Plan(definition, params, profile)
    chosen = f"SELECT arrayJoin({plan.binder.bind('Array(UInt64)', list(units))}) AS unit"
    relations, events = unit_events(plan, chosen, (), of_visitors=False)
    tail = f"SELECT unit, max(ts) AS last_ts FROM ({events}) GROUP BY unit"
    return Statement(with_relations(relations, tail), plan.binder.values)


def all_units(counted: CountedUnits) -> Statement:
    """Select all units, in no order. Columns: see `units_page`, without `total`."""
    plan = counted.plan
    selected = f"SELECT {', '.join(counted.columns)} FROM counted WHERE {in_cohort_filter(plan)}"
    if not plan.breadth:
        return counted.statement(f"SELECT *, CAST([], 'Array(String)') AS texts FROM ({selected})")
    texts, join = texts_join(plan, "selected")
    return counted.statement(f"""
        SELECT selected.*, {texts} AS texts
        FROM ({selected}) AS selected {join}""")


def conditions_on(plan: Plan, units: UnitConditions) -> tuple[dict[str, str], str]:
    """Return relations, and whether a counted unit meets all conditions, which reads them."""
    relations: dict[str, str] = {}
    # In any order, an option is one of a row, and the steps say only how many rows were done.
    of_row = units.option is not None and plan.definition.in_any_order
    listed = replace(units, steps=()) if of_row else units
    conditions = [in_cohort_filter(plan), _steps_and_outcomes(plan, listed)]
    if units.option is not None:
        step = plan.steps[units.steps[0] - 1]
        if not step.row.all_of:
            conditions.append(plan.overlaps("chosen", step.each[units.option]))
    if units.diagnostic is not None:
        conditions.append(f"seen[{_seen_index(plan, units.diagnostic)}] > 0")
    if units.quality is not None:
        conditions.append(_quality(plan, units.quality, units.property))
    if units.units is not None:
        keys = plan.binder.bind("Array(UInt64)", list(units.units))
        conditions.append(f"counted.unit IN {keys}")
    if units.event is not None:
        relations, by_event = units_by_event(plan, units.event)
        conditions.append(by_event)
    return relations, " AND ".join(f"({condition})" for condition in conditions)


def _steps_and_outcomes(plan: Plan, units: UnitConditions) -> str:
    """Whether a unit is in the list of one of the steps and one of the outcomes."""
    reached = stopped = "1"
    if units.steps:
        reached = f"reached >= {min(units.steps)}"
        stopped = f"reached IN ({', '.join(map(str, units.steps))})"
    if not units.outcomes:
        return reached
    n = len(plan.steps)
    return " OR ".join(
        f"({_outcome(plan, outcome, n)}) AND {reached if outcome is Outcome.COMPLETED else stopped}"
        for outcome in units.outcomes
    )


def _seen_index(plan: Plan, diagnostic: int) -> int:
    """Return the index in `seen` that shows whether a diagnostic row counts the unit."""
    rows = plan.definition.diagnostics
    if not rows[diagnostic - 1].all_of:
        return diagnostic
    return len(rows) + sum(row.all_of for row in rows[:diagnostic])


def _outcome(plan: Plan, outcome: Outcome, n: int) -> str:
    waiting = _waiting(plan)
    return {
        Outcome.COMPLETED: f"reached = {n}",
        Outcome.PENDING: f"reached < {n} AND {_ELIGIBLE} AND {waiting}",
        Outcome.DROPPED_OFF: f"reached < {n} AND {_ELIGIBLE} AND NOT ({waiting})",
        Outcome.EXCLUDED: f"NOT ({_ELIGIBLE})",
    }[outcome]


def _waiting(plan: Plan) -> str:
    """Whether a unit's window is open."""
    return f"{plan.evaluated_at()} <= window_end"


def _quality(plan: Plan, quality: Quality, number: int) -> str:
    numbers = [number] if number else range(1, plan.breadth + 1)
    return {
        Quality.SEQUENCE_SKIP: "skips > 0",
        Quality.UNORDERED_TIE: "ties > 0",
        Quality.INVALID_SEQUENCE_VALUE: "invalid > 0",
        Quality.ORDERING_ISSUE: "skips + ties + invalid > 0",
        Quality.TIED_ENTRY: "tied",
        Quality.UNKNOWN_ENTRY_VALUE: " OR ".join(f"keys[{at}] = 0" for at in numbers) or "0",
        Quality.CONFLICT: " OR ".join(f"bitTest(conflicts, {at - 1})" for at in numbers) or "0",
        Quality.SEVERAL_VISITORS: "several",
        Quality.OVER_LIMIT: "cut",
        Quality.COARSE_TIME: "coarse > 0",
        Quality.ASSUMED_ORDER: "assumed > 0",
    }[quality]


def trend(
    counted: CountedUnits,
    edges_ms: Sequence[int],
    step: int | None = None,
    pair: tuple[int, int] | None = None,
) -> Statement:
    """Count units by the time of their entry.

    edges_ms: starts of the buckets in ascending order. The first bucket must start no later than
    the first entry. For visitors, `counted` must have the same edges. step: count the units that
    dropped off after this step as `lost`, in one more column. pair: count the eligible units that
    reached each of two steps, and those of them that are settled, as `reached_from`, `reached_to`,
    `settled_from` and `settled_to`, and the open units that may still reach the second step
    (`open_from`), that may still reach both (`open_before`), and that have reached the second and
    may still be excluded (`open_to`), in seven more columns.

    Columns: bucket (its start), first_ms and last_ms (times of its first and last entry), entered,
    completed, pending, early (completed units whose window is open), excluded, reopened
    (dropped-off units that are open), reopened_excluded (excluded units that are open), median_ms,
    and `waiting_ages` if the parameters have ages. Buckets without entries are omitted.
    """
    plan = counted.plan
    n = len(plan.steps)
    edges = plan.binder.bind("Array(Int64)", list(edges_ms))
    dropped_off, more = _outcome(plan, Outcome.DROPPED_OFF, n), ""
    if step is not None:
        more = f"countIf(reached = {step} AND {dropped_off}) AS lost,"
    if pair is not None:
        settled = f"{_ELIGIBLE} AND NOT open AND NOT ({_waiting(plan)})"
        pending = _outcome(plan, Outcome.PENDING, n)
        may_continue = f"(({pending}) OR open AND {dropped_off})"
        more += f"""
               countIf({may_continue} AND reached < {pair[0]}
                   OR open AND NOT ({_ELIGIBLE})) AS open_before,
               countIf({may_continue} AND reached >= {pair[0]} AND reached < {pair[1]})
                   AS open_from,
               countIf({may_continue} AND reached >= {pair[1]}) AS open_to,
               countIf(reached >= {pair[0]} AND {_ELIGIBLE}) AS reached_from,
               countIf(reached >= {pair[1]} AND {_ELIGIBLE}) AS reached_to,
               countIf(reached >= {pair[0]} AND {settled}) AS settled_from,
               countIf(reached >= {pair[1]} AND {settled}) AS settled_to,"""
    columns = f"""roundDown(entry_ts, {edges}) AS bucket, count() AS entered, {more}
               min(entry_ts) AS first_ms, max(entry_ts) AS last_ms,
               countIf(reached = {n}) AS completed,
               countIf({_outcome(plan, Outcome.PENDING, n)}) AS pending,
               countIf(reached = {n} AND {_waiting(plan)}) AS early,
               countIf({_outcome(plan, Outcome.EXCLUDED, n)}) AS excluded,
               countIf(open AND {dropped_off}) AS reopened,
               countIf(open AND {_outcome(plan, Outcome.EXCLUDED, n)}) AS reopened_excluded,
               quantileExactInclusiveIf(0.5)(done_ts - entry_ts, reached = {n}) AS median_ms
               {waiting_ages(plan, _outcome(plan, Outcome.PENDING, n))}"""
    return counted.summary(
        columns, f"WHERE {in_cohort_filter(plan)} GROUP BY bucket ORDER BY bucket"
    )


def possible_entries(
    definition: Definition, params: QueryParams, profile: DataProfile, edges_ms: Sequence[int]
) -> Statement:
    """Select the time range of events that match step 1, for each bucket.

    Any of these events may be an entry. edges_ms: see `trend`. Columns: bucket, first_ms, last_ms.
    """
    plan = Plan(definition, params, profile)
    edges = plan.binder.bind("Array(Int64)", list(edges_ms))
    sql = f"""
        SELECT roundDown(ts, {edges}) AS bucket, min(ts) AS first_ms, max(ts) AS last_ms
        FROM ({matched_events(plan)})
        WHERE unit != 0 AND {plan.overlaps("mask", plan.entry_bits)}{plan.may_enter()}
        GROUP BY bucket ORDER BY bucket"""
    return Statement(sql, plan.binder.values)


def timing(
    counted: CountedUnits, pairs: Sequence[tuple[int, int]], edges_ms: Sequence[int]
) -> Statement:
    """Compute exact times between the completions of two steps, for each pair of steps.

    The statement returns one row. edges_ms: starts of the histogram's bins; the first is 0.
    Columns for each pair i: units_i, mean_i, min_i, max_i, quantiles_i (`QUANTILES`) and bins_i
    (start and count of each bin that is not empty).
    """
    plan = counted.plan
    edges = plan.binder.bind("Array(Int64)", list(edges_ms))
    levels = ", ".join(map(str, QUANTILES))
    columns = []
    for i, (first, last) in enumerate(pairs):
        took, both = f"(done[{last}] - done[{first}])", f"reached >= {last}"
        columns += [
            f"countIf({both}) AS units_{i}",
            f"avgIf({took}, {both}) AS mean_{i}",
            f"minIf({took}, {both}) AS min_{i}",
            f"maxIf({took}, {both}) AS max_{i}",
            f"quantilesExactInclusiveIf({levels})({took}, {both}) AS quantiles_{i}",
            # The result is exact because there is room for every bin. `sumMap` takes three times
            # as long.
            f"arrayMap(bin -> (bin.1, bin.2), approx_top_kIf({len(edges_ms)})"
            f"(roundDown({took}, {edges}), {both})) AS bins_{i}",
        ]
    return counted.summary(", ".join(columns), f"WHERE {in_cohort_filter(plan)}")


def next_events(
    counted: CountedUnits,
    step: int,
    outcome: Outcome | None,
    limit: int,
    *,
    of_visitors: bool = False,
) -> Statement:
    """Count the later events inside the window, for units that stopped after a step.

    outcome: None for units that are pending or dropped off. of_visitors: read all events of the
    attempts' visitors. limit: maximum number of event names.
    Columns: is_total, kind, name, units, events, first_units (units whose next event has this
    name), stopped (all units that stopped after the step).
    """
    plan = counted.plan
    conditions = [in_cohort_filter(plan), f"reached = {step}"]
    conditions.append(_ELIGIBLE if outcome is None else _outcome(plan, outcome, len(plan.steps)))
    stopped = f"""
        SELECT {chosen_columns(plan)}, done_ts, window_end
        FROM counted WHERE {" AND ".join(conditions)}"""
    relations, events = unit_events(
        plan, stopped, ("done_ts", "window_end"), of_visitors=of_visitors
    )
    later = f"""
        SELECT unit, kind, name, event_id,
               row_number() OVER (PARTITION BY unit ORDER BY end_ts, event_id) = 1 AS is_first
        FROM ({events}) WHERE end_ts > done_ts AND ts != done_ts AND ts <= window_end"""
    tail = f"""
        SELECT grouping(kind) = 1 AS is_total, kind, name, uniqExact(unit) AS units,
               uniqExact(event_id) AS events, countIf(is_first) AS first_units,
               (SELECT uniqExact(unit) FROM owners) AS stopped
        FROM ({later}) GROUP BY GROUPING SETS ((kind, name), ())
        ORDER BY is_total DESC, units DESC, events DESC, kind, name
        LIMIT {plan.binder.bind("UInt64", limit + 1)}"""
    return counted.statement(tail, **relations)
