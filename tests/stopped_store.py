"""Reads the warehouse of a service that has stopped."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

_READ = """
import json, sys
from pathlib import Path
from penstock.warehouse.client import Warehouse
warehouse = Warehouse(data=Path(sys.argv[1]), url=None)
print(json.dumps(warehouse.query(sys.argv[2])[1]))
warehouse.close()
"""


def rows_of(data: Path, sql: str) -> list[list[Any]]:
    """Return the rows of a query. Runs it in another process, because the engine opens only one
    folder per process.
    """
    read = subprocess.run(
        [sys.executable, "-c", _READ, str(data), sql],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert read.returncode == 0, read.stderr
    rows: list[list[Any]] = json.loads(read.stdout)
    return rows
