"""Time and memory of exporting a funnel of a million attempts in 200,000 cohorts.

Each format runs in its own process, over the same data, so that its peak memory can be measured.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.funnel import DAY_MS, STARTED_MS
from penstock.base.ids import ScopeId, WebsiteId
from penstock.funnels.definitions.model import CountingUnit, Definition, Match, MatchType, Row
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.results.export import write_table
from penstock.funnels.results.tables import Format
from penstock.funnels.statements.query import QueryParams
from penstock.funnels.statements.report import build_export
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse

ATTEMPTS, COHORTS = 1_000_000, 200_000
FUNNEL = Definition(
    tuple(Row((Match(MatchType.EVENT, name),)) for name in ("asked", "answered")),
    CountingUnit.ATTEMPT,
    604_800,
    "attemptId",
    None,
    ("topic",),
)
QUESTION = QueryParams(
    (WebsiteId("web_export"),), (ScopeId("web_export"),), None, None, STARTED_MS + 61 * DAY_MS
)


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        for job in ("make", *Format):
            process = subprocess.run(
                [sys.executable, "-m", "bench.export", job, folder],
                check=True,
                stdout=subprocess.PIPE,
            )
            if job == "make":
                figures: dict[str, Any] = {"attempts": ATTEMPTS, "formats": {}}
            else:
                figures["formats"][str(job)] = json.loads(process.stdout)
        return figures


def make(data: Path) -> None:
    warehouse = Warehouse(data=data, url=None)
    migrations.migrate(warehouse)
    warehouse.command(
        Path(__file__).with_name("export.sql").read_text("utf-8"),
        {"attempts": ATTEMPTS, "cohorts": COHORTS, "started": STARTED_MS},
    )
    warehouse.close()


def measure(data: Path, form: Format) -> dict[str, float]:
    warehouse = Warehouse(data=data, url=None)
    profile = read_profile(warehouse, QUESTION)
    before_gb = _peak_gb()
    start_s = time.perf_counter()
    statement = build_export(FUNNEL, QUESTION, profile)
    with tempfile.TemporaryFile() as file:
        with warehouse.blocks(statement.sql, statement.parameters, ENGINE_SETTINGS) as blocks:
            rows = (
                [dict(zip(names, row, strict=True)) for row in block] for names, block in blocks
            )
            write_table(FUNNEL, rows, form, file)
        size = file.tell()
    return {
        "seconds": time.perf_counter() - start_s,
        "megabytes": size / 1e6,
        "before_gb": before_gb,
        "peak_gb": _peak_gb(),
    }


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        print(json.dumps(measure(Path(sys.argv[2]), Format(sys.argv[1]))))
