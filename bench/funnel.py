"""Time of a six-step attempt funnel with three breakdowns, beside `windowFunnel` on the same table.

Everything runs in one process, in turn, and the best time of each counts. The bare `windowFunnel`
knows no sequence numbers, cohorts, medians, pending units or data quality; it only finds how far
each attempt came. It runs as one would write it (grouped by the attempt's text as stored), tuned
(the same without NULLs), and grouped by the hash that Penstock uses.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.funnels.reports import evaluate

from bench import outcomes
from penstock.base.ids import ScopeId, WebsiteId
from penstock.funnels.definitions.model import CountingUnit, Definition, Match, MatchType, Row
from penstock.funnels.insights.service import BIN_EDGES_MS
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import QueryParams, Statement
from penstock.funnels.statements.report import build
from penstock.funnels.statements.units import Outcome, UnitConditions, timing, trend, units_page
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse

ATTEMPTS = int(os.environ.get("PENSTOCK_BENCH_ATTEMPTS", "1960000"))
ROUNDS = 5
DAY_MS = 86_400_000
STARTED_MS = 1_700_000_000_000

STEPS = tuple(Row((Match(MatchType.EVENT, f"step_{k}"),)) for k in range(1, 7))
QUERY_PARAMS = QueryParams(
    (WebsiteId("web_bench"),), (ScopeId("web_bench"),), None, None, STARTED_MS + 61 * DAY_MS
)
BREAKDOWNS = ("variant", "plan", "channel")

_CONDITIONS = ", ".join(f"name = 'step_{k}'" for k in range(1, 7))
_BARE = f"""
SELECT level, count() FROM (
    SELECT
        windowFunnel({7 * DAY_MS})(toUInt64(toUnixTimestamp64Milli(occurred_at)), {_CONDITIONS})
            AS level
    FROM events
    WHERE website_id = 'web_bench' AND name IN ({", ".join(f"'step_{k}'" for k in range(1, 7))})
    GROUP BY %s)
GROUP BY level ORDER BY level"""
BARE = {
    "bare windowFunnel, by the attempt's text": _BARE % "scalars.attemptId.:String",
    "bare windowFunnel, tuned: text without NULLs": _BARE
    % "assumeNotNull(scalars.attemptId.:String)",
    "bare windowFunnel, tuned: by the stored hash": _BARE
    % "assumeNotNull(hashes.attemptId.:Int64)",
}


def funnel(*breakdowns: str, unit: CountingUnit = CountingUnit.ATTEMPT) -> Definition:
    if unit is CountingUnit.VISITOR:
        return Definition(STEPS, unit, 604_800, breakdown_properties=breakdowns)
    return Definition(STEPS, unit, 604_800, "attemptId", "n", breakdowns)


FUNNELS = {
    "attempts, three breakdowns, sequence numbers": funnel(*BREAKDOWNS),
    "attempts, no breakdown, sequence numbers": funnel(),
    "visitors, three breakdowns": funnel(*BREAKDOWNS, unit=CountingUnit.VISITOR),
}


def run() -> dict[str, Any]:
    """Create the data, then measure in a new process, whose memory is that of reports alone."""
    with tempfile.TemporaryDirectory() as folder:
        for job in ("make", "measure"):
            process = subprocess.run(
                [sys.executable, "-m", "bench.funnel", job, folder],
                check=True,
                stdout=subprocess.PIPE,
            )
        figures: dict[str, Any] = json.loads(process.stdout)
        return figures


def make(data: Path) -> None:
    warehouse = Warehouse(data=data, url=None)
    migrations.migrate(warehouse)
    warehouse.command(
        Path(__file__).with_name("events.sql").read_text("utf-8"), {"attempts": ATTEMPTS}
    )
    warehouse.command("OPTIMIZE TABLE events FINAL")
    warehouse.close()


def measure(data: Path) -> dict[str, Any]:
    warehouse = Warehouse(data=data, url=None)
    [[events, step_events]] = warehouse.query(
        "SELECT count(), countIf(name LIKE 'step%') FROM events"
    )[1]

    def report(definition: Definition) -> Callable[[], object]:
        return lambda: evaluate(warehouse, definition, QUERY_PARAMS)

    def bare(sql: str) -> Callable[[], object]:
        return lambda: warehouse.query(sql)

    definition = FUNNELS["attempts, three breakdowns, sequence numbers"]
    report(definition)()
    memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    jobs = {name: report(definition) for name, definition in FUNNELS.items()} | {
        name: bare(sql) for name, sql in BARE.items()
    }
    jobs |= unit_queries(warehouse, definition)
    return {
        "events": events,
        "step_events": step_events,
        "attempts": ATTEMPTS,
        "memory_gb": memory_gb,
        "seconds": best_seconds(jobs),
        "parts": best_seconds(parts(warehouse)),
        "outcomes": outcomes.measure(
            outcomes.StoredFunnel(warehouse, definition, QUERY_PARAMS),
            bare(next(iter(BARE.values()))),
            report(definition),
            ROUNDS,
        ),
    }


def unit_queries(warehouse: Warehouse, definition: Definition) -> dict[str, Callable[[], object]]:
    """Queries about single units of the same funnel."""

    def timed_statement(statement_of: Callable[[CountedUnits], Statement]) -> Callable[[], object]:
        def run() -> object:
            statement = statement_of(
                CountedUnits(definition, QUERY_PARAMS, read_profile(warehouse, QUERY_PARAMS))
            )
            return warehouse.query(statement.sql, statement.parameters, ENGINE_SETTINGS)

        return run

    days = [STARTED_MS + DAY_MS * day for day in range(-1, 62)]
    pairs = [(1, 6), *((step, step + 1) for step in range(1, 6))]
    stopped = UnitConditions(3, outcome=Outcome.DROPPED_OFF)
    return {
        "trend by day": timed_statement(lambda counted: trend(counted, days)),
        "times between all steps": timed_statement(
            lambda counted: timing(counted, pairs, BIN_EDGES_MS)
        ),
        "a page of the units that stopped at step 3": timed_statement(
            lambda counted: units_page(counted, stopped, None, 20)
        ),
    }


def parts(warehouse: Warehouse) -> dict[str, Callable[[], object]]:
    """The stages of the three-breakdown funnel, each including those before it."""
    statement = build(
        FUNNELS["attempts, three breakdowns, sequence numbers"],
        QUERY_PARAMS,
        read_profile(warehouse, QUERY_PARAMS),
    )
    relations = statement.sql[: statement.sql.rindex("SELECT * FROM ranked")]
    columns = ("unit", "ts", "mask", "number", "key_1", "key_2", "key_3", "visitor")
    stages = {
        "profile of the data": None,
        "reading the columns": "SELECT "
        + ", ".join(f"max({column})" for column in columns)
        + " FROM matched",
        "+ a position for each unit and step": (
            "SELECT max(class), max(value), max(reached), max(done_ts) FROM chains"
        ),
        "+ simple units counted by cohort": (
            "SELECT sum(counted[1]), sum(length(units)), max(finalizeAggregation(completion)) "
            "FROM tallies"
        ),
        "+ complex units folded": "SELECT count(), max(reached), max(conflicts) FROM units",
    }

    def stage(tail: str | None) -> Callable[[], object]:
        if tail is None:
            return lambda: read_profile(warehouse, QUERY_PARAMS)
        return lambda: warehouse.query(relations + tail, statement.parameters, ENGINE_SETTINGS)

    return {name: stage(tail) for name, tail in stages.items()}


def best_seconds(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Best time of each job. Jobs take turns, so that noise does not hit only one of them."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps(run(), indent=2))
    elif sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        print(json.dumps(measure(Path(sys.argv[2]))))
