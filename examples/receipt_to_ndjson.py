"""Converts the receipt log, a CSV event log of Dutch municipalities, for `penstock import`.

    python examples/receipt_to_ndjson.py receipt.csv > receipt.ndjson

Each case becomes a visitor and an attempt, and each activity an event name. Every other column with
a value becomes a property of the same name.
"""

import csv
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

CASE, ACTIVITY, TIME = "case:concept:name", "concept:name", "time:timestamp"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {
                "type": "event",
                "name": row[ACTIVITY],
                "timestamp": datetime.fromisoformat(row[TIME]).isoformat(),
                "visitorId": row[CASE],
                "dedupeKey": row["concept:instance"],
                "properties": {
                    name: value
                    for name, value in row.items()
                    if value and name not in (ACTIVITY, TIME)
                },
            }


if __name__ == "__main__":
    for line in lines(Path(sys.argv[1])):
        print(json.dumps(line, ensure_ascii=False))
