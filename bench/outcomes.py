"""Measures stored outcomes: build time and size, queries about units, and reports after changes.

A report after changes first folds the changed attempts, and the time includes both. A change is one
more event for a recent attempt; each time, different attempts change.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.data import DAY_MS, STARTED_MS, Dataset, counts_of, store_dataset
from bench.funnels import PARAMS, DirectFunnel, StoredFunnel, funnel, open_events
from bench.model import Bench, Cell, Column, Table
from bench.other_engines import bare_window_funnels
from bench.timing import best_seconds, in_new_process, peak_gb, seconds_of
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.statements.query import Strategy
from penstock.funnels.statements.report import build
from penstock.funnels.statements.units import (
    Outcome,
    UnitConditions,
    UnitOrder,
    timing,
    trend,
    units_page,
)
from penstock.funnels.timing import BIN_EDGES_MS
from penstock.warehouse.client import Warehouse

SIZE = 10_000_000
CHANGED_UNITS = {245_000: (100,), SIZE: (100, 1_000, 10_000), 50_000_000: (100,)}
"""Counts of changed units to evaluate, by number of step events in small, usual and large data."""
_NEW_EVENTS = """
INSERT INTO events (* EXCEPT (visitor_key))
SELECT * EXCEPT (visitor_key) REPLACE (
    {shipment:UInt64} AS shipment, concat(event_id, '+') AS event_id,
    occurred_at + INTERVAL 1 SECOND AS occurred_at)
FROM events WHERE name = 'step_3' AND NOT endsWith(events.event_id, '+')
ORDER BY occurred_at DESC LIMIT 1 BY hashes.attemptId.:Int64
LIMIT {units:UInt64} OFFSET {changed:UInt64}"""
_BARE = "bare `windowFunnel`, by the attempt's text"
_CHANGED = "SELECT countIf(endsWith(event_id, '+')) FROM events"


def run(bench: Bench) -> list[Table]:
    builds: list[list[Cell]] = []
    refreshes: list[list[Cell]] = []
    queries: list[list[Cell]] = []
    stages: list[list[Cell]] = []
    for size, changed in CHANGED_UNITS.items():
        block = bench.events(min(size, 1_000_000))
        data = store_dataset(bench, Dataset(6, bench.events(size), block))
        events = counts_of(data).step_events
        bench.progress(f"{events:,} step events: build, and reports after changes")
        rounds = bench.rounds(3 if size <= SIZE else 2)
        build_row, rows = in_new_process(measure_refreshes, data, changed, rounds)
        builds.append([events, *build_row])
        refreshes += [[events, *row] for row in rows]
        if size == SIZE:
            bench.progress("queries of units, and stages of a direct report")
            queries, stages = in_new_process(measure_queries, data, bench.rounds(3))
    note = "Six steps, three breakdowns."
    return [
        Table(
            "Build of stored outcomes",
            (
                Column("step events", 0),
                Column("bare by text, s", 2),
                Column("direct report, s", 2),
                Column("direct, of bare", 2),
                Column("build, s", 1),
                Column("build, of direct", 2),
                Column("peak memory, GB", 2),
                Column("share of the events' size", 3),
            ),
            builds,
            f"{note} With all threads; the worker of a service builds with one.",
        ),
        Table(
            "A stored report after changes",
            (
                Column("step events", 0),
                Column("changed units", 0),
                Column("fold, s", 2),
                Column("report, s", 2),
                Column("both, s", 2),
                Column("of bare, by text", 2),
                Column("of the direct report", 2),
            ),
            refreshes,
            note,
        ),
        Table(
            "Other queries of the funnel",
            (
                Column("query"),
                Column("direct, s", 2),
                Column("stored, s", 2),
                Column("stored after changes, s", 2),
                Column("stored, of bare", 2),
            ),
            queries,
            f"{note} The middle size. After changes the rows are in several parts of their table, "
            "until the engine merges them.",
        ),
        Table(
            "Stages of a direct report",
            (Column("stage"), Column("seconds", 2)),
            stages,
            "The middle size. Each includes those before it.",
        ),
    ]


def measure_refreshes(
    data: Path, changed_units: Sequence[int], rounds: int
) -> tuple[list[Cell], list[list[Cell]]]:
    warehouse = open_events(data)
    outcomes = StoredFunnel(warehouse, funnel())
    build_s = seconds_of(outcomes.build)
    build_peak_gb = peak_gb()
    by_text = next(iter(bare_window_funnels(warehouse).values()))
    report = DirectFunnel(warehouse, funnel()).report
    seconds = best_seconds({"bare": by_text, "direct": report}, rounds)
    bare, direct = seconds["bare"], seconds["direct"]
    share = outcomes.share_of_events()
    rows: list[list[Cell]] = []
    for units in (0, *changed_units):
        best = (float("inf"), float("inf"))
        for _ in range(rounds):
            if units:
                [[changed]] = warehouse.query(_CHANGED)[1]
                outcomes.shipment += 1
                parameters = {"units": units, "changed": changed, "shipment": outcomes.shipment}
                warehouse.command(_NEW_EVENTS, parameters)
            start_s = time.perf_counter()
            folded = outcomes.fold(max(changed_units))
            fold_s = time.perf_counter() - start_s
            assert folded == units, f"{folded} units changed, not {units}"
            best = min(best, (fold_s, seconds_of(outcomes.report)), key=sum)
        both = sum(best)
        rows.append([units, *best, both, both / bare, both / direct])
    warehouse.close()
    build_row: list[Cell] = [
        bare, direct, direct / bare, build_s, build_s / direct, build_peak_gb, share,
    ]  # fmt: skip
    return build_row, rows


def measure_queries(data: Path, rounds: int) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Measure stored rows in several parts, as they are after changes, and then merged, as after a
    build.
    """
    warehouse = open_events(data)
    direct, outcomes = DirectFunnel(warehouse, funnel()), StoredFunnel(warehouse, funnel())
    changed = best_seconds(_queries(outcomes), rounds)
    outcomes.merge()
    by_text = next(iter(bare_window_funnels(warehouse).values()))
    from_events = best_seconds({_BARE: by_text, **_queries(direct)}, rounds)
    merged = best_seconds(_queries(outcomes), rounds)
    stages = best_seconds(_stages(warehouse), rounds)
    warehouse.close()
    bare = from_events[_BARE]
    rows: list[list[Cell]] = [[_BARE, bare, None, None, None]]
    rows += [
        [name, from_events[name], merged[name], changed[name], merged[name] / bare]
        for name in merged
    ]
    return rows, [[name, seconds] for name, seconds in stages.items()]


def _queries(way: DirectFunnel) -> dict[str, Callable[[], object]]:
    days = [STARTED_MS + DAY_MS * day for day in range(-1, 62)]
    pairs = [(1, 6), *((step, step + 1) for step in range(1, 6))]
    stopped = UnitConditions((3,), (Outcome.DROPPED_OFF,))
    return {
        "report": way.report,
        "trend by day": lambda: way.query(lambda units: trend(units, days)),
        "times between all steps": lambda: way.query(
            lambda units: timing(units, pairs, BIN_EDGES_MS)
        ),
        "a page of the units that stopped at step 3": lambda: way.query(
            lambda units: units_page(units, stopped, UnitOrder(), None, 20)
        ),
    }


def _stages(warehouse: Warehouse) -> dict[str, Callable[[], object]]:
    profile = DirectFunnel(warehouse, funnel()).profile
    statement = build(funnel(), PARAMS, profile(), Strategy.PACKED)
    relations = statement.sql[: statement.sql.rindex("SELECT * FROM ranked")]
    columns = ("unit", "ts", "mask", "number", "key_1", "key_2", "key_3", "visitor")
    maxima = ", ".join(f"max({column})" for column in columns)
    tails = {
        "reading the columns": f"SELECT {maxima} FROM matched",
        "a position for each unit and step": (
            "SELECT max(class), max(value), max(reached), max(done_ts) FROM chains"
        ),
        "simple units counted by cohort": (
            "SELECT sum(counted[1]), sum(length(units)), max(finalizeAggregation(completion)) "
            "FROM tallies"
        ),
        "complex units folded": "SELECT count(), max(reached), max(conflicts) FROM units",
    }

    def stage(tail: str) -> Callable[[], object]:
        return lambda: warehouse.query(relations + tail, statement.parameters, ENGINE_SETTINGS)

    return {"profile of the data": profile} | {name: stage(tail) for name, tail in tails.items()}
