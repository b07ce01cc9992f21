"""Statements that store outcomes of attempt funnels, and keep them up to date.

Each plan reads all history up to its evaluation time, without a period, a cohort filter or merges,
and sets `keeps_visitors` (see `plan_of`). Its subset selects events or units.
"""

from collections.abc import Mapping, Sequence

from penstock.base.clock import LATEST_MS
from penstock.base.ids import WebsiteId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.statements import relations
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.cohorts import entry_values
from penstock.funnels.statements.counted_units import counted_units
from penstock.funnels.statements.events import (
    in_share,
    matched_events,
)
from penstock.funnels.statements.query import (
    DataProfile,
    Plan,
    QueryParams,
    Statement,
    Strategy,
    Subset,
)
from penstock.funnels.statements.relations import compose

_EVENTS_PER_UNIT = 50
"""Number of report events that the general fold evaluates in the time of one changed unit."""

_DECIDED = (
    "entry_ts",
    "took",
    "reached",
    "keys",
    "chosen",
    "skips",
    "ties",
    "invalid",
    "tied",
    "conflicts",
    "visitors",
    "seen",
    "cut",
    "pauses",
    "excluded_after",
)
"""The columns that the fold computes, except for the time of the first event."""

_COLUMNS = ", ".join(("build", "unit", "version", "first_ts", *_DECIDED))
_ROW = """first_ts, entry_ts, done_ts - entry_ts AS took, reached, keys, toUInt64(chosen) AS chosen,
           skips, ties, invalid, tied, conflicts, visitors, seen, cut,
           arrayDifference(done) AS pauses, excluded_after"""
_FOLDED = ", ".join(f"folded.{column} AS {column}" for column in _DECIDED)
_VALUES = ", ".join(("unit", "first_ts", *_DECIDED))
_TYPES = (
    "UInt64, Int64, Int64, Int64, UInt8, Array(UInt64), UInt64, UInt32, UInt32, UInt32, UInt8,"
    " UInt8, Array(UInt64), Array(UInt32), UInt8, Array(Int64), Int64"
)
_DIGEST = (
    f"count() AS units, groupBitXor(cityHash64(CAST(({_VALUES}), 'Tuple({_TYPES})'))) AS digest"
)


def plan_of(
    definition: Definition,
    website_ids: tuple[WebsiteId, ...],
    profile: DataProfile,
    *,
    read_until_ms: int = LATEST_MS,
    subset: Subset = Subset(),  # noqa: B008 - immutable
) -> Plan:
    """Return the plan of a statement.

    profile: facts about the plan's events, without merges and payments.
    """
    params = QueryParams(website_ids, (), None, None, read_until_ms)
    return Plan(definition, params, profile, subset=subset, keeps_visitors=True)


def is_storable(definition: Definition) -> bool:
    """Whether outcomes of the funnel can be stored.

    The funnel must count attempts whose IDs no merge changes, with at most 64 matches, and must not
    read anything about visitors, because a touch, a trait or an earlier event may arrive later or
    with a merge, and then change attempts that have no new event. Rows contain entry values only.
    """
    matches = sum(len(row.matches) for row in definition.rows)
    return (
        not definition.has_one_visitor
        and matches <= 64
        and not definition.reads_visitors
        and definition.is_by_entry
    )


def store_units(plan: Plan, build: str, version: int) -> Statement:
    """Fold all units of the plan and store the outcomes of units that entered.

    The build's entry values must be stored first. version: number of the newest shipment that the
    fold reads.
    """
    binder = plan.binder
    name = binder.bind("String", build)
    tail = f"""
    SELECT {name} AS build, unit, {binder.bind("UInt64", version)} AS version, {_ROW}
    FROM counted"""
    values = f"""
    SELECT value, any(funnel_outcome_values.keys) AS keys
    FROM funnel_outcome_values WHERE build = {name} GROUP BY value"""
    counted = counted_units(plan, values=values)
    return _insert("funnel_outcomes", _COLUMNS, compose(plan, counted, tail))


def store_changed_units(
    plan: Plan, build: str, version: int, first_times: Mapping[int, int]
) -> Statement:
    """Fold the units of the plan's subset and store a row for each, even if it did not enter.

    first_times: time of each unit's first event. version: see `store_units`.
    """
    binder = plan.binder
    is_packed = len(first_times) * _EVENTS_PER_UNIT >= relations.WORTH_PACKING
    strategy = Strategy.PACKED if is_packed else Strategy.GENERAL
    units = binder.bind("Array(UInt64)", list(first_times))
    firsts = binder.bind("Array(Int64)", list(first_times.values()))
    tail = f"""
    SELECT {binder.bind("String", build)} AS build, changed.unit AS unit,
           {binder.bind("UInt64", version)} AS version,
           if(folded.reached > 0, folded.first_ts, changed.first_ms) AS first_ts,
           {_FOLDED}
    FROM (SELECT unit, first_ms FROM (SELECT {units} AS units, {firsts} AS firsts)
          ARRAY JOIN units AS unit, firsts AS first_ms) AS changed
    LEFT ANY JOIN (SELECT unit, {_ROW} FROM counted) AS folded ON changed.unit = folded.unit"""
    counted = counted_units(plan, strategy)
    return _insert("funnel_outcomes", _COLUMNS, compose(plan, counted, tail))


def store_rest(plan: Plan, build: str, version: int) -> Statement:
    """Store the first event time of each unit that `store_units` did not count in this version.

    Every unit with an event then has a row. If a unit has no row, all its events are in newer
    shipments.
    """
    binder = plan.binder
    at = binder.bind("UInt64", version)
    name = binder.bind("String", build)
    sql = f"""
    SELECT {name} AS build, unit, {at} AS version, 0 AS reached, min(ts) AS first_ts
    FROM ({matched_events(plan)}) AS matched
    WHERE unit != 0 AND unit NOT IN (
        SELECT unit FROM funnel_outcomes
        WHERE build = {name} AND funnel_outcomes.version = {at})
    GROUP BY unit"""
    columns = "build, unit, version, reached, first_ts"
    return _insert("funnel_outcomes", columns, Statement(sql, binder.values))


def merge_parts(build: str) -> Statement:
    """Merge the rows of a new build into one part.

    Until newer rows are inserted, `FINAL` has nothing to compare.
    """
    binder = Binder()
    sql = f"""
    OPTIMIZE TABLE funnel_outcomes PARTITION {binder.bind("String", build)} FINAL
    SETTINGS optimize_skip_merged_partitions = 1"""
    return Statement(sql, binder.values)


def store_values(plan: Plan, build: str) -> Statement:
    """Store all combinations of entry values in the plan's events."""
    sql = f"""
    SELECT {plan.binder.bind("String", build)} AS build, value, keys, texts
    FROM ({entry_values(plan)})"""
    columns = "build, value, keys, texts"
    return _insert("funnel_outcome_values", columns, Statement(sql, plan.binder.values))


def store_unitless(plan: Plan, build: str) -> Statement:
    """Store the number of events that match a required step and have no attempt ID."""
    events = matched_events(plan, more={"block": "events.shipment"})
    sql = f"""
    SELECT {plan.binder.bind("String", build)} AS build, ts, toInt64(block) AS block,
           count() AS events
    FROM ({events}) WHERE unit = 0 AND {plan.overlaps("mask", plan.required)}
    GROUP BY ts, block"""
    columns = "build, ts, block, events"
    return _insert("funnel_outcome_unitless", columns, Statement(sql, plan.binder.values))


def units_of(plan: Plan, limit: int, until_ms: int) -> Statement:
    """Select the units of the plan's events, at most `limit`. 0 stands for events without a unit.

    Columns: unit, first_ms (time of its first event), has_provider_event, next_ms (time of its
    first event after `until_ms`, or 0 if there is none).
    """
    until = plan.binder.bind("Int64", until_ms)
    sql = f"""
    SELECT unit, min(ts) AS first_ms, max(provider) AS has_provider_event,
           minIf(ts, ts > {until}) AS next_ms
    FROM ({matched_events(plan)}) GROUP BY unit
    LIMIT {plan.binder.bind("UInt64", limit)}"""
    return Statement(sql, plan.binder.values)


def first_times(build: str, units: Sequence[int]) -> Statement:
    """Select the time of the first event of each stored unit. Columns: unit, first_ms.

    The statement also reads replaced rows, which is safe: a unit's first event can only move to an
    earlier time.
    """
    binder = Binder()
    sql = f"""
    SELECT unit, min(first_ts) AS first_ms FROM funnel_outcomes
    WHERE build = {binder.bind("String", build)}
        AND unit IN {binder.bind("Array(UInt64)", list(units))}
    GROUP BY unit"""
    return Statement(sql, binder.values)


def provider_events(plan: Plan) -> Statement:
    """Count the payment provider events that belong to an attempt. Column: events."""
    sql = f"SELECT count() AS events FROM ({matched_events(plan)}) WHERE provider AND unit != 0"
    return Statement(sql, plan.binder.values)


def first_event(plan: Plan) -> Statement:
    """Select the time of the plan's first event, or 0 if there is none. Column: first_ms."""
    sql = f"SELECT toInt64(min(ts)) AS first_ms FROM ({matched_events(plan)})"
    return Statement(sql, plan.binder.values)


def digest_of_events(plan: Plan) -> Statement:
    """Compute the digest of the outcomes of the plan's events, like `digest_of_rows`."""
    tail = f"SELECT {_DIGEST} FROM (SELECT unit, {_ROW} FROM counted)"
    return compose(plan, counted_units(plan), tail)


def digest_of_rows(build: str, share: tuple[int, int]) -> Statement:
    """Compute a digest of stored outcomes. Columns: units (number of units), digest."""
    binder = Binder()
    sql = f"""
    SELECT {_DIGEST} FROM funnel_outcomes FINAL
    WHERE build = {binder.bind("String", build)} AND reached > 0 AND {in_share(binder, share)}"""
    return Statement(sql, binder.values)


def _insert(table: str, columns: str, rows: Statement) -> Statement:
    """Insert the rows of a statement. No two rows may have the same key.

    The engine does not check for equal keys before writing. The check would take a quarter of a
    build's time.
    """
    sql = f"INSERT INTO {table} ({columns}) {rows.sql}"
    return Statement(sql, rows.parameters, {**rows.settings, "optimize_on_insert": 0})
