"""The clients of Segment and RudderStack, unmodified from the registries.

Each sends the same journeys through a host that fails, with one call that is refused. The funnel
must equal that of the same journeys sent natively.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import browser_type_launch_args
from tests.segment.faulty_host import FAULTS, LOST, FaultyHost
from tests.segment.service import CLIENTS, PYTHON_PATH, Json, Service, Site, new_site, node
from tests.waiting import PATIENCE_S, eventually

__all__ = ["browser_type_launch_args"]

BUILDS = {
    "segment": "@segment/analytics-next/dist/umd/index.js",
    "rudderstack": "@rudderstack/analytics-js/dist/npm/modern/bundled/umd/index.js",
}
FUNNEL = {
    "name": "Checkout",
    "steps": [
        {"type": "Pageview", "value": "/cart"},
        {"type": "Event", "value": "Checkout Started"},
        {"type": "Event", "value": "Checkout Step Completed"},
        {"type": "Transaction", "value": "Order Completed"},
    ],
    "countingUnit": "attempt",
    "attemptProperty": "checkout_id",
    "breakdownProperties": ["plan"],
    "conversionWindowSeconds": 604800,
}

KILLS = int(os.environ.get("PENSTOCK_SEGMENT_KILLS", "1"))

pytestmark = pytest.mark.skipif(
    not (CLIENTS / "node_modules").exists(), reason="scripts/setup segment installs the clients"
)


def journeys(number: int, began: datetime) -> list[Json]:
    """Calls of checkouts, which end at different steps."""
    calls = []
    for index in range(number):
        own = {"checkout_id": f"c-{index}", "plan": "pro" if index % 4 else "free"}
        visitor = {"anonymousId": f"v-{index}"}
        user = {**visitor, "userId": f"u-{index}"}
        order = {"order_id": f"o-{index}", "revenue": 19.9, "currency": "EUR"}
        journey: list[Json] = [
            {**visitor, "type": "page", "name": "Cart", "properties": {**own, "path": "/cart"}},
            {**visitor, "type": "track", "event": "Checkout Started", "properties": own},
            {**user, "type": "identify", "traits": {"plan": own["plan"]}},
            {
                **user, "type": "track", "event": "Checkout Step Completed",
                "properties": {**own, "step": 2},
            },
            {
                **user, "type": "track", "event": "Order Completed",
                "properties": {**own, **order},
            },
        ]  # fmt: skip
        calls += [
            {**call, "timestamp": (began + timedelta(minutes=index, seconds=second)).isoformat()}
            for second, call in enumerate(journey[: 2 + index % 4])
        ]
    refused = {"type": "track", "event": "Broken", "properties": {"$price": 5}}
    return [*calls, {**calls[-1], **refused}]


CALLS = journeys(12, datetime.now(UTC) - timedelta(hours=5))


@pytest.fixture(scope="module")
def service(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("segment") / "data")
    yield running
    running.close()


@pytest.fixture(scope="module")
def native(service: Service) -> Site:
    """The same journeys, by Penstock's own routes."""
    site = new_site(service)
    headers = {"Authorization": f"Bearer {site.write_key}"}
    for call in CALLS[:-1]:
        ids = {"websiteId": site.website_id, "visitorId": call["anonymousId"]}
        if call["type"] == "identify":
            address, body = "/api/identify", {**ids, "userId": call["userId"]}
        else:
            properties = dict(call["properties"])
            kind = {"page": "pageview"}.get(call["type"], "event")
            if call.get("event") == "Order Completed":
                kind = "transaction"
            name = {"path": properties.pop("path")} if kind == "pageview" else {
                "name": call["event"]
            }  # fmt: skip
            address, body = "/api/track", {
                **ids, **name, "type": kind, "properties": properties,
                "timestamp": call["timestamp"],
            }  # fmt: skip
        answer = service.client.post(address, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
    return site


@pytest.fixture(scope="module")
def funnel_id(service: Service) -> str:
    return service.client.post("/api/funnels", json=FUNNEL).json()["id"]


def expect_equal(name: str, site: Site, native: Site, funnel_id: str) -> None:
    """name: of the client, in what the test prints."""
    events = sum(call["type"] != "identify" for call in CALLS) - 1
    eventually(lambda: site.counts()[0] == events)
    stored, refused = site.counts()
    print(f"{name}: {events} events made, {stored} stored")
    assert stored == events
    assert refused >= 1  # more when a body was sent again because its answer was lost
    assert site.refused_fields() == {"properties.$price"}
    results = site.results(funnel_id)
    assert results == native.results(funnel_id)
    assert [step["count"] for step in results["aggregate"]["steps"]] == [12, 12, 6, 3]


def file_of(calls: list[Json], folder: Path) -> Path:
    path = folder / "calls.ndjson"
    path.write_text("".join(f"{json.dumps(call)}\n" for call in calls), "utf-8")
    return path


def command(language: str) -> list[str]:
    if language == "python":
        return [sys.executable, str(CLIENTS / "send.py")]
    return [node(), str(CLIENTS / "send.mjs")]


BACKENDS = [(language, client) for language in ("python", "node") for client in BUILDS]


def start(language: str, client: str, host: FaultyHost, site: Site, file: Path) -> Any:
    return subprocess.Popen(
        [*command(language), client, host.url, site.write_key, str(file)],
        env={**os.environ, **PYTHON_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow("four clients send again what a kill of the service lost")
@pytest.mark.parametrize("kill", range(KILLS))
def test_backends_count_as_native_events(
    service: Service, native: Site, funnel_id: str, tmp_path: Path, kill: int
) -> None:
    """The service is also killed once, while every client sends."""
    file, running = file_of(CALLS, tmp_path), []
    for language, client in BACKENDS:
        site, host = new_site(service), FaultyHost(lambda: service.url)
        running.append((site, host, start(language, client, host, site, file)))
    eventually(lambda: any(host.is_past_its_faults() for _, host, _ in running))
    time.sleep(random.uniform(0, 0.5))
    service.kill_and_start()
    for (language, client), (site, host, process) in zip(BACKENDS, running, strict=True):
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, output) == (0, "")
        host.close()
        assert tuple(host.statuses[:3]) == FAULTS
        assert set(host.statuses[3:]) <= {200, 429, 503, LOST}
        expect_equal(f"{client} for {language}", site, native, funnel_id)


@pytest.mark.full("each build of each client in a browser")
@pytest.mark.parametrize("client", BUILDS)
def test_browsers_count_as_native_events(
    service: Service, native: Site, funnel_id: str, browser: Browser, client: str
) -> None:
    site, host = new_site(service), FaultyHost(lambda: service.url)
    page = browser.new_page()
    page.route("http://shop.localhost/", lambda route: route.fulfill(body="<html></html>"))
    page.goto("http://shop.localhost/")
    page.add_script_tag(path=CLIENTS / "node_modules" / BUILDS[client])
    page.add_script_tag(path=CLIENTS / "page.js")
    page.evaluate(
        f"([url, key, calls]) => {client}(url, key, calls)", [host.url, site.website_id, CALLS]
    )
    expect_equal(f"{client} in Chromium", site, native, funnel_id)
    assert tuple(host.statuses[:3]) == FAULTS
    page.close()
    host.close()
