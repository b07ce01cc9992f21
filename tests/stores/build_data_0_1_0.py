"""Builds `tests/stores/data/0.1.0.tar.gz`: a small data folder of Penstock 0.1.0 and its reports.

Run it by hand, with that version's code on the path:

    git worktree add ../penstock-0.1.0 v0.1.0
    PYTHONPATH=../penstock-0.1.0/src .venv/bin/python -m tests.stores.build_data_0_1_0

The archive contains `data/` (both stores after an orderly stop) and `expected.json`: an API key and
the answer of each path. All conversion windows have ended, so answers do not change with time.
"""

import json
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

import httpx

import penstock
from tests.serving import Served
from tests.stores.reports import comparable, report_paths

ARCHIVE = Path(__file__).parent / "data" / "0.1.0.tar.gz"
CHECKOUTS = 120
STEPS = ("checkout_started", "address_entered", "order_placed")


def build() -> None:
    assert penstock.__version__ == "0.1.0", "put the code of v0.1.0 on PYTHONPATH"
    folder = Path(tempfile.mkdtemp())
    with Served(folder / "data") as service:
        key, website_id = service.first_account()
        client = service.client
        send_events(client, website_id)
        import_events(client, website_id)
        merge_visitors(client, website_id)
        paths = report_paths(client, create_funnels(client), website_id)
        answers = {path: comparable(client.get(path).raise_for_status().json()) for path in paths}
        assert service.stop() == 0
    expected = {"key": key, "websiteId": website_id, "answers": answers}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True))
    (folder / "data" / "penstock.lock").unlink()
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tarfile.open(ARCHIVE, "w:gz") as archive:
        for name in ("data", "expected.json"):
            archive.add(folder / name, name, filter=anonymous)
    shutil.rmtree(folder)
    print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size:,} bytes")


def send_events(client: httpx.Client, website_id: str) -> None:
    """Send checkouts that stop after one, two or three steps, with cohorts, numbers and a
    repeat.
    """
    events = []
    for number in range(CHECKOUTS):
        for step in range(1 + number % len(STEPS)):
            events.append(
                {
                    "websiteId": website_id,
                    "event": STEPS[step],
                    "userId": f"user-{number % 70}",
                    "eventId": f"checkout-{number}-{step}",
                    "timestamp": f"2025-03-{1 + number % 28:02}T10:{number % 60:02}:{step:02}Z",
                    "properties": {
                        "checkoutId": f"c-{number}",
                        "n": step,
                        "plan": ("free", "pro", 1, True, None)[number % 5],
                    },
                }
            )
    for first in range(0, len(events), 100):
        batch = {"events": events[first : first + 100]}
        client.post("/api/v1/events/batch", json=batch).raise_for_status()
    repeat = client.post("/api/v1/events", json=events[0]).raise_for_status().json()
    assert repeat["status"] == "duplicate"


def import_events(client: httpx.Client, website_id: str) -> None:
    """Run an import with a rejected line, which coverage reports as a gap."""
    lines = [
        {"type": "event", "name": "checkout_started", "timestamp": "2025-02-01T00:00:00Z",
         "userId": "imported", "properties": {"checkoutId": "i-1", "plan": "pro"}},
        {"type": "event", "name": "order_placed", "timestamp": "yesterday", "userId": "imported"},
    ]  # fmt: skip
    body = "".join(json.dumps(line) + "\n" for line in lines)
    job = client.post(
        "/api/imports",
        params={"websiteId": website_id},
        content=body.encode(),
        headers={"Content-Type": "application/x-ndjson"},
    ).json()
    while client.get(f"/api/imports/{job['id']}").json()["state"] not in ("done", "failed"):
        time.sleep(0.1)


def merge_visitors(client: httpx.Client, website_id: str) -> None:
    for visitor_id in ("phone", "laptop"):
        page = {"websiteId": website_id, "type": "pageview", "visitorId": visitor_id}
        page |= {"path": "/pricing", "timestamp": "2025-03-05T08:00:00Z"}
        client.post("/api/track", json=page).raise_for_status()
        identity = {"websiteId": website_id, "visitorId": visitor_id, "userId": "user-3"}
        client.post("/api/identify", json=identity).raise_for_status()


def create_funnels(client: httpx.Client) -> list[str]:
    """Create an attempt funnel with a goal step, and a visitor funnel. Returns their IDs."""
    goal = {"name": "Paid", "match": {"type": "Event", "value": "order_placed"}}
    client.post("/api/goals", json=goal).raise_for_status()
    steps = [{"type": "Event", "value": name} for name in STEPS[:2]]
    attempts = {
        "name": "Checkout",
        "countingUnit": "attempt",
        "attemptProperty": "checkoutId",
        "sequenceProperty": "n",
        "breakdownProperties": ["plan"],
        "steps": [*steps, {"type": "Goal", "value": "Paid"}],
    }
    visitors = {
        "name": "Buyers",
        "conversionWindowSeconds": 86400,
        "steps": [{"type": "Pageview", "value": "/pricing"}, {"type": "Goal", "value": "Paid"}],
    }
    return [
        client.post("/api/funnels", json=funnel).raise_for_status().json()["id"]
        for funnel in (attempts, visitors)
    ]


def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    build()
