"""Builds `tests/receipts/data/form-1.tar.gz`: a small data folder with a receipt of form 1.

Run it by hand with the last commit that made this form, and with another version in it:

    git worktree add ../penstock-form-1 92c90a02
    cd ../penstock-form-1 && sed -i 's/0.3.0/0.3.1.dev1/' src/penstock/__init__.py && cd -
    PYTHONPATH=../penstock-form-1/src .venv/bin/python -m tests.receipts.build_form_1

The archive contains `data/` (both stores after an orderly stop) and `earlier.json`: an API key, the
website, the file of the receipt, and the public keys.
"""

import json
import shutil
import tarfile
import tempfile
from pathlib import Path

import penstock
from penstock.receipts.model import FORMAT
from tests.serving import Served
from tests.stores.build_data_0_1_0 import anonymous

ARCHIVE = Path(__file__).parent / "data" / "form-1.tar.gz"
VERSION = "0.3.1.dev1"
STEPS = ("checkout_started", "address_entered", "order_placed")
CHECKOUTS = 60


def build() -> None:
    assert (penstock.__version__, FORMAT) == (VERSION, 1), "put the code of form 1 on PYTHONPATH"
    folder = Path(tempfile.mkdtemp())
    with Served(folder / "data") as service:
        key, website = service.first_account()
        client = service.client
        events = [
            event(website, number, step)
            for number in range(CHECKOUTS)
            for step in range(1 + number % len(STEPS))
        ]
        for first in range(0, len(events), 100):
            batch = {"events": events[first : first + 100]}
            client.post("/api/v1/events/batch", json=batch).raise_for_status()
        for visitor in ("visitor-0", "visitor-1"):
            identity = {"websiteId": website, "visitorId": visitor, "userId": "ann"}
            client.post("/api/identify", json=identity).raise_for_status()
        funnel = {
            "name": "Checkout",
            "conversionWindowSeconds": 86_400,
            "breakdownProperties": ["plan"],
            "steps": [{"type": "Event", "value": name} for name in STEPS],
        }
        funnel_id = client.post("/api/funnels", json=funnel).raise_for_status().json()["id"]
        period = {"startAt": "2025-03-01T00:00:00Z", "endAt": "2025-04-01T00:00:00Z"}
        form = {"funnelId": funnel_id, "name": "Board, March", "parameters": period}
        receipt = client.post("/api/receipts", json=form).raise_for_status().json()
        file = client.get(f"/api/receipts/{receipt['id']}/file").raise_for_status().json()
        keys = client.get("/.well-known/penstock-receipt-keys.json").raise_for_status().json()
        assert service.stop() == 0
    earlier = {"key": key, "websiteId": website, "file": file, "keys": keys}
    (folder / "earlier.json").write_text(json.dumps(earlier, indent=1, sort_keys=True))
    (folder / "data" / "penstock.lock").unlink()
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tarfile.open(ARCHIVE, "w:gz") as archive:
        for name in ("data", "earlier.json"):
            archive.add(folder / name, name, filter=anonymous)
    shutil.rmtree(folder)
    print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size:,} bytes")


def event(website: str, number: int, step: int) -> dict[str, object]:
    """The event of a visitor at a step."""
    return {
        "websiteId": website,
        "event": STEPS[step],
        "visitorId": f"visitor-{number}",
        "timestamp": f"2025-03-{1 + number % 28:02}T10:{number % 60:02}:{step:02}Z",
        "properties": {"plan": ("free", "pro")[number % 2]},
    }


if __name__ == "__main__":
    build()
