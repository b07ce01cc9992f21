"""Measures a six-step funnel over growing datasets: direct, stored, and in other engines.

Each measurement runs in a separate process, so that its peak memory can be measured. Within a
process, the queries take turns, and the best time counts.
"""

from functools import partial
from pathlib import Path

from bench import in_duckdb, in_postgres, other_engines
from bench.data import Dataset, counts_of, store_dataset
from bench.funnels import DirectFunnel, StoredFunnel, funnel, open_events
from bench.model import Bench, Cell, Column, Plot, Table
from bench.timing import best_seconds, in_new_process, peak_gb, seconds_of

SIZES = (1_000_000, 10_000_000, 50_000_000)
DIRECT, STORED, BUILD = "direct report", "stored report", "build of stored outcomes"


def run(bench: Bench) -> list[Table]:
    rows: list[list[Cell]] = []
    for size in SIZES:
        data = store_dataset(bench, Dataset(6, bench.events(size), bench.events(1_000_000)))
        measured = bench.attempt(f"{size:,}", partial(_rows_of_size, bench, data, size))
        rows += _with_growth(measured or [], rows)
    columns = (
        Column("step events", 0),
        Column("query"),
        Column("seconds", 2),
        Column("of bare, by text", 2),
        Column("growth", 2),
        Column("peak memory, GB", 2),
        Column("before it, GB", 2),
    )
    notes = (
        "Three breakdowns and sequence numbers. A report computes every field and coverage; the "
        "others only find how many attempts completed each step. Growth: time of the last size "
        "to this one's, divided by that of the events; 1 is linear. Peak memory is that of a "
        "process of its own; before it: with the store open. Self-joins run over a table of three "
        "columns, in PostgreSQL with an index on all of them; empty: not measured, or longer than "
        f"{other_engines.LIMIT_S} seconds."
    )
    plots = (
        Plot("funnel-time", "lines", "step events", ("seconds",), "seconds", "query", True, True),
        Plot("funnel-memory", "lines", "step events", ("peak memory, GB",), "GB", "query", True),
    )
    return [Table("A six-step funnel by size", columns, rows, notes, plots)]


def _rows_of_size(bench: Bench, data: Path, size: int) -> list[list[Cell]]:
    rounds = bench.rounds(5 if size < SIZES[-1] else 3)
    bench.progress(f"funnel over {counts_of(data).step_events:,} step events: direct, bare")
    best, before, peak = in_new_process(direct, data, rounds)
    seconds: dict[str, float | None] = {**best}
    memory: dict[str, tuple[float, float]] = {DIRECT: (peak, before)}
    bench.progress("stored: build and report")
    seconds[BUILD], build_peak = in_new_process(build, data)
    memory[BUILD] = (build_peak, before)
    seconds[STORED], before, peak = in_new_process(from_outcomes, data, rounds)
    memory[STORED] = (peak, before)
    rounds = 1 if size == SIZES[-1] else 2
    others = {"DuckDB, self-join": (in_duckdb.seconds, ".parquet")}
    if size < SIZES[-1]:
        others["PostgreSQL, self-join"] = (in_postgres.seconds, ".csv")
    for name, (measure, suffix) in others.items():
        file = data.with_suffix(suffix)
        in_new_process(other_engines.write_flat, data, file)
        seconds[name] = bench.attempt(name, partial(in_new_process, measure, file, rounds))
        file.unlink()
    bare = best[next(iter(other_engines.UNITS))]
    events = counts_of(data).step_events
    return [
        [events, name, value, value and value / bare, None, *memory.get(name, (None, None))]
        for name, value in seconds.items()
    ]


def direct(data: Path, rounds: int) -> tuple[dict[str, float], float, float]:
    """Measure direct reports.

    Returns the best seconds by query, and the memory before the first report and at its peak, in
    GB.
    """
    warehouse = open_events(data)
    report, before = DirectFunnel(warehouse, funnel()).report, peak_gb()
    report()
    peak = peak_gb()
    bare = other_engines.bare_window_funnels(warehouse)
    seconds = best_seconds({DIRECT: report, **bare}, rounds)
    warehouse.close()
    return seconds, before, peak


def build(data: Path) -> tuple[float, float]:
    """Store the outcomes, using all threads. Returns the seconds, and the peak memory in GB."""
    warehouse = open_events(data)
    seconds = seconds_of(StoredFunnel(warehouse, funnel()).build)
    warehouse.close()
    return seconds, peak_gb()


def from_outcomes(data: Path, rounds: int) -> tuple[float, float, float]:
    """Like `direct`, but only for the stored report."""
    warehouse = open_events(data)
    report, before = StoredFunnel(warehouse, funnel()).report, peak_gb()
    report()
    peak = peak_gb()
    seconds = best_seconds({STORED: report}, rounds)[STORED]
    warehouse.close()
    return seconds, before, peak


def _with_growth(rows: list[list[Cell]], earlier: list[list[Cell]]) -> list[list[Cell]]:
    """Return the rows for a size, with their growth since the previous size."""
    last = {row[1]: (row[0], row[2]) for row in earlier}
    for row in rows:
        events, seconds = last.get(row[1], (None, None))
        if events and seconds and row[0] and row[2]:
            row[4] = (float(row[2]) / float(seconds)) / (float(row[0]) / float(events))
    return rows
