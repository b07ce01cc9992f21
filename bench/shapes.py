"""Measures reports by number of steps and of breakdowns, for visitors and attempts."""

from pathlib import Path

from bench.data import BREAKDOWNS, Dataset, counts_of, store_dataset
from bench.funnels import DirectFunnel, funnel, open_events, params_of
from bench.long_funnel import service_with_events
from bench.model import Bench, Cell, Column, Plot, Table
from bench.timing import best_seconds, in_new_process
from penstock.funnels.definitions.model import CountingUnit

SIZE = 10_000_000
STEPS = (2, 5, 10, 20)


def run(bench: Bench) -> list[Table]:
    data, account = service_with_events(bench)
    long = counts_of(data)
    bench.progress("by steps")
    by_steps = in_new_process(measure_steps, data, account.website_id, bench.rounds(3))
    short = store_dataset(bench, Dataset(6, bench.events(SIZE), bench.events(1_000_000)))
    bench.progress("by breakdowns")
    by_breakdowns = in_new_process(measure_breakdowns, short, bench.rounds(3))
    units = (Column("attempts, s", 2), Column("visitors, s", 2))
    names = tuple(column.name for column in units)
    return [
        Table(
            "Direct reports by steps",
            (
                Column("steps", 0),
                Column("events read", 0),
                *units,
                Column("attempts, ns per event", 0),
            ),
            by_steps,
            f"Three breakdowns, over {long.events:,} events of attempts with up to 20 "
            "steps. A funnel reads the events of its steps only. Attempts have sequence numbers.",
            (Plot("funnel-steps", "lines", "steps", names, "seconds"),),
        ),
        Table(
            "Direct reports by breakdowns",
            (Column("breakdowns", 0), *units),
            by_breakdowns,
            f"Six steps, {counts_of(short).step_events:,} step events.",
            (Plot("funnel-breakdowns", "bars", "breakdowns", names, "seconds"),),
        ),
    ]


def measure_steps(data: Path, website_id: str, rounds: int) -> list[list[Cell]]:
    warehouse = open_events(data)
    rows: list[list[Cell]] = []
    for steps in STEPS:
        jobs = {
            unit: DirectFunnel(warehouse, funnel(steps, unit=unit), params_of(website_id)).report
            for unit in CountingUnit
        }
        names = [f"step_{k}" for k in range(1, steps + 1)]
        [[events]] = warehouse.query(
            "SELECT count() FROM events WHERE name IN {names:Array(String)}", {"names": names}
        )[1]
        best = best_seconds(jobs, rounds)
        attempts = best[CountingUnit.ATTEMPT]
        rows.append([steps, events, attempts, best[CountingUnit.VISITOR], attempts / events * 1e9])
    warehouse.close()
    return rows


def measure_breakdowns(data: Path, rounds: int) -> list[list[Cell]]:
    warehouse = open_events(data)
    rows: list[list[Cell]] = []
    for count in range(len(BREAKDOWNS) + 1):
        jobs = {
            unit: DirectFunnel(warehouse, funnel(6, BREAKDOWNS[:count], unit)).report
            for unit in CountingUnit
        }
        best = best_seconds(jobs, rounds)
        rows.append([count, best[CountingUnit.ATTEMPT], best[CountingUnit.VISITOR]])
    warehouse.close()
    return rows
