"""The worked checkout of docs/planning-events.md gives the figures that the page states."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tenant import Tenant

PAGE = (Path(__file__).parents[2] / "docs/planning-events.md").read_text("utf-8")
STARTED, ADDRESS, SUBMITTED = "checkout_started", "address_entered", "payment_submitted"
EVENTS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    (STARTED, "v-1", 0, {"checkoutId": "c-1", "n": 1, "plan": "pro"}),
    (ADDRESS, "v-1", 60, {"checkoutId": "c-1", "n": 2}),
    ("payment_failed", "v-1", 120, {"checkoutId": "c-1", "n": 3}),
    (SUBMITTED, "v-1", 180, {"checkoutId": "c-1", "n": 4}),
    (STARTED, "v-2", 0, {"checkoutId": "c-2", "n": 3, "plan": "pro"}),
    (ADDRESS, "v-2", 60, {"checkoutId": "c-2", "n": 1}),
    (STARTED, "v-3", 0, {"checkoutId": "c-3", "n": "1", "plan": "pro"}),
    (STARTED, "v-4", 0, {"checkoutId": "c-4", "n": 1}),
    (ADDRESS, "v-4", 60, {"checkoutId": "c-4", "n": 2, "plan": "free"}),
    (STARTED, "v-5", 0, {"checkoutId": "c-5", "plan": "pro"}),
    (ADDRESS, "v-5", 0, {"checkoutId": "c-5"}),
    (STARTED, "v-6", 0, {"checkoutId": "c-6", "n": 1, "plan": "pro"}),
    (ADDRESS, "v-7", 60, {"checkoutId": "c-6", "n": 2}),
    (ADDRESS, "v-8", 60, {"n": 2}),
)


@pytest.mark.usefixtures("warehouse")
def test_the_worked_checkout_gives_the_stated_figures(workspace: Tenant) -> None:
    client = workspace.client
    common = {"websiteId": workspace.website_id}
    for name, visitor, second, properties in EVENTS:
        stamp = f"2025-03-03T10:{second // 60:02}:00Z"
        event = {"event": name, "visitorId": visitor, "timestamp": stamp, "properties": properties}
        assert client.post("/api/v1/events", json=common | event).status_code == 202
    purchase = {
        "event": "purchase",
        "visitorId": "v-1",
        "transactionId": "o-1",
        "timestamp": "2025-03-03T10:03:05Z",
        "properties": {"checkoutId": "c-1"},
    }
    assert client.post("/api/v1/transactions", json=common | purchase).status_code == 202
    [definition] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    funnel = client.post("/api/funnels", json=json.loads(definition)).json()
    report = client.get(f"/api/funnels/{funnel['id']}/results", params=common).json()
    assert (report["aggregate"]["entered"], report["aggregate"]["completed"]) == (6, 1)
    [diagnostic] = report["aggregate"]["diagnostics"]
    assert (diagnostic["where"], diagnostic["units"]) == ("between steps 2 and 3", 1)
    stated = PAGE.split("data-quality) figures:")[1].split("\n\n")[0]
    figures = {name: int(value) for name, value in re.findall(r"`(\w+)` (\d)", stated)}
    quality = report["dataQuality"]
    assert len(figures) == 5
    assert {name: quality[name] for name in figures} == figures
    assert quality["unknownEntryValues"] == {"plan": 1}
