"""Runs statements on the embedded event store of a stopped service.

    python -m tests.query_warehouse DATA STATEMENT...

Prints a JSON array with the rows of each statement. A statement without a result has an empty list.
"""

import json
import sys
from pathlib import Path

from penstock.warehouse.client import Warehouse


def main(data: str, *statements: str) -> None:
    warehouse = Warehouse(data=Path(data), url=None)
    results = []
    for statement in statements:
        if statement.startswith("SELECT"):
            results.append(warehouse.query(statement)[1])
        else:
            warehouse.command(statement)
            results.append([])
    warehouse.close()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
