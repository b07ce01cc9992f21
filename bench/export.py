"""Measures the time and memory of exporting a funnel with a million attempts in 200,000 cohorts.

Each format runs in a separate process over the same data, so that its peak memory can be measured.
"""

import tempfile
import time
from pathlib import Path

from bench.data import STARTED_MS
from bench.funnels import WINDOW_S, params_of
from bench.model import Bench, Cell, Column, Table
from bench.timing import in_new_process, peak_gb
from penstock.base.table_files import MEDIA_TYPES, TableFormat
from penstock.funnels.definitions.model import CountingUnit, Definition, Match, MatchType, Row
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.results.export import write_table
from penstock.funnels.statements.report import build_export
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse

ATTEMPTS, COHORTS = 1_000_000, 200_000
_PARAMS = params_of("web_export")
_FUNNEL = Definition(
    tuple(Row((Match(MatchType.EVENT, name),)) for name in ("asked", "answered")),
    CountingUnit.ATTEMPT,
    WINDOW_S,
    ("attemptId",),
    None,
    ("topic",),
)


def run(bench: Bench) -> list[Table]:
    data = bench.folder / "export"
    attempts, cohorts = bench.events(ATTEMPTS), bench.events(COHORTS)
    bench.progress("storing attempts")
    in_new_process(fill, data, attempts, cohorts)
    rows: list[list[Cell]] = []
    for form in MEDIA_TYPES:
        bench.progress(f"export as {form}")
        rows.append([form, *in_new_process(measure, data, form)])
    columns = (
        Column("format"),
        Column("seconds", 1),
        Column("file, MB", 1),
        Column("peak memory, GB", 2),
        Column("before the export, GB", 2),
    )
    notes = (
        f"The report of {attempts:,} attempts in {cohorts:,} cohorts as a file, each format in a "
        "process of its own."
    )
    return [Table("An export", columns, rows, notes)]


def fill(data: Path, attempts: int, cohorts: int) -> None:
    warehouse = Warehouse(data=data, url=None)
    migrations.migrate(warehouse)
    warehouse.command("DROP VIEW catalogue_feed")  # The reason is given in `bench.data`.
    warehouse.command(
        Path(__file__).with_name("export.sql").read_text("utf-8"),
        {"attempts": attempts, "cohorts": cohorts, "started": STARTED_MS},
    )
    warehouse.close()


def measure(data: Path, form: TableFormat) -> tuple[float, float, float, float]:
    """Measure an export. Returns the seconds, the file size in MB, and the peak and earlier memory
    in GB.
    """
    warehouse = Warehouse(data=data, url=None)
    profile = read_profile(warehouse, _PARAMS)
    before_gb, start_s = peak_gb(), time.perf_counter()
    statement = build_export(_FUNNEL, _PARAMS, profile)
    with tempfile.TemporaryFile() as file:
        with warehouse.stream_blocks(
            statement.sql, statement.parameters, ENGINE_SETTINGS
        ) as blocks:
            rows = (
                [dict(zip(names, row, strict=True)) for row in block] for names, block in blocks
            )
            write_table(_FUNNEL, rows, lambda _: {}, form, file)
        size = file.tell()
    seconds = time.perf_counter() - start_s
    warehouse.close()
    return seconds, size / 1e6, peak_gb(), before_gb
