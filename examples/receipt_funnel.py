"""Prints an attempt funnel of the receipt log, by channel, as a Markdown table.

It has six steps and a conversion window of 30 days.

PENSTOCK_URL=http://127.0.0.1:8000 PENSTOCK_API_KEY=... python examples/receipt_funnel.py WEBSITE_ID
"""

import os
import sys
from typing import Any

import httpx

STEPS = (
    "Confirmation of receipt",
    "T02 Check confirmation of receipt",
    "T04 Determine confirmation of receipt",
    "T05 Print and send confirmation of receipt",
    "T06 Determine necessity of stop advice",
    "T10 Determine necessity to stop indication",
)
FUNNEL = {
    "name": "Receipt of an application",
    "countingUnit": "attempt",
    "attemptProperty": "case:concept:name",
    "breakdownProperties": ["case:channel"],
    "conversionWindowSeconds": 2_592_000,
    "steps": [{"type": "Event", "value": step} for step in STEPS],
}


def results(website_id: str) -> dict[str, Any]:
    url, key = (
        os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8000"),
        os.environ["PENSTOCK_API_KEY"],
    )
    preview = FUNNEL | {"websiteId": website_id}
    response = httpx.post(
        f"{url}/api/funnels/preview",
        json=preview,
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    )
    response.raise_for_status()
    body: dict[str, Any] = response.json()
    return body


def row(name: str, figures: dict[str, Any]) -> str:
    counts = [f"{step['count']:,}" for step in figures["steps"]]
    rate, median = figures["conversionRate"], figures["medianCompletionMinutes"]
    cells = ["" if rate is None else f"{rate:.1%}", "" if median is None else f"{median:,.1f}"]
    return f"| {' | '.join([name, *counts, *cells])} |"


if __name__ == "__main__":
    report = results(sys.argv[1])
    columns = " | ".join(step.split(maxsplit=1)[0] for step in STEPS)
    print(f"| channel | {columns} | rate | median minutes |")
    print(f"|---|{'---:|' * (len(STEPS) + 2)}")
    print(row("all", report["aggregate"]))
    for cohort in report["cohorts"]["data"]:
        print(row(cohort["label"]["case:channel"], cohort))
