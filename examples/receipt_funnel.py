"""The receipt log's six steps as a funnel of attempts with a window of 30 days, by channel; prints the results as a Markdown table.

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
    url, key = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8000"), os.environ["PENSTOCK_API_KEY"]
    preview = FUNNEL | {"websiteId": website_id}
    answer = httpx.post(f"{url}/api/funnels/preview", json=preview, headers={"Authorization": f"Bearer {key}"}, timeout=60)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def row(name: str, counted: dict[str, Any]) -> str:
    counts = [f"{step['count']:,}" for step in counted["steps"]]
    rate, median = counted["conversionRate"], counted["medianCompletionMinutes"]
    shown = ["" if rate is None else f"{rate:.1%}", "" if median is None else f"{median:,.1f}"]
    return f"| {' | '.join([name, *counts, *shown])} |"


if __name__ == "__main__":
    found = results(sys.argv[1])
    print(f"| channel | {' | '.join(step.split(maxsplit=1)[0] for step in STEPS)} | rate | median minutes |")
    print(f"|---|{'---:|' * (len(STEPS) + 2)}")
    print(row("all", found["aggregate"]))
    for cohort in found["cohorts"]["data"]:
        print(row(cohort["label"]["case:channel"], cohort))
