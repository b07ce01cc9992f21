"""Measures the start-up time, from the command until the service is ready, and the memory after the
start.
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import httpx
from tests.serving import environment

from bench.data import Dataset, counts_of, store_dataset
from bench.model import Bench, Cell, Column, Table
from bench.service import penstock, wait_for
from bench.timing import resident_mb, seconds_of

SIZE = 10_000_000


def run(bench: Bench) -> list[Table]:
    filled = store_dataset(bench, Dataset(6, bench.events(SIZE), bench.events(1_000_000)))
    cases = {
        "empty": bench.folder / "start",
        f"{counts_of(filled).events:,} events": filled,
    }
    rounds = bench.rounds(5)
    rows: list[list[Cell]] = []
    for name, data in cases.items():
        bench.progress(f"start, {name}")
        _start(data)  # the first start creates the stores
        starts = [_start(data) for _ in range(rounds)]
        rows.append(
            [name, median(start[0] for start in starts), median(start[1] for start in starts)]
        )
    version = median(seconds_of(_version) for _ in range(rounds))
    rows.append(["`penstock --version`", version, None])
    columns = (Column("data"), Column("seconds", 2), Column("memory, MB", 0))
    notes = (
        "From the command until `/health/ready` answers 200; the medians of several starts with "
        "warm files. The last row is a command that opens no store."
    )
    return [Table("Start-up", columns, rows, notes)]


def _start(data: Path) -> tuple[float, float]:
    """Start the service. Returns the seconds until it is ready, and its memory in MB."""
    start_s = time.perf_counter()
    with penstock(data) as service:
        wait_for(lambda: _is_ready(service.url))
        return time.perf_counter() - start_s, resident_mb(service.pid)


def _is_ready(url: str) -> bool:
    return httpx.get(f"{url}/health/ready").status_code == 200


def _version() -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "--version"]
    subprocess.run(command, check=True, capture_output=True, env=environment())
