"""`/health/ready`: both stores answer and no worker keeps failing."""

from threading import Event

import pytest

from penstock.base.errors import StoreUnavailable
from penstock.health import service
from penstock.warehouse.client import Warehouse
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

WORKERS = {
    "key_last_use",
    "share_opens",
    "alerts",
    "alert_messages",
    "webhook_messages",
    "webhook_deliveries",
    "intake",
    "shipper",
    "click_buffer",
    "click_quota",
    "imports",
    "import_checks",
    "jobs",
    "deletions",
    "link_cleanup",
    "dedupe_key_cleanup",
    "dedupe_key_move",
    "retention",
    "audit_log",
    "audit_log_cleanup",
    "store_sizes",
    "backup_fence",
    "checkpoints",
    "memory",
    "event_rows",
    "forecasts",
    "visitor_releases",
}


def failing(server):
    """Names of the workers that fail."""
    workers = server.get("/health/ready").json()["workers"]
    return [worker["name"] for worker in workers if worker["failingSince"]]


def test_a_node_in_order_names_its_stores_and_workers(server, services):
    for room in services.rooms:
        for worker in room.workers():
            worker.wake()  # some would begin a minute after the start
    answer = server.get("/health/ready")
    document = answer.json()
    assert answer.status_code == 200
    assert (document["status"], document["database"], document["warehouse"]) == (
        "ready",
        True,
        True,
    )
    is_server = services.warehouse.folder is None
    expected = WORKERS - {"backup_fence"} if is_server else WORKERS
    assert {worker["name"] for worker in document["workers"]} == expected
    eventually(
        lambda: all(
            worker["lastSuccessAt"]
            for worker in server.get("/health/ready").json()["workers"]
            if worker["name"] != "backup_fence"  # its step waits for the next backup
        )
    )
    assert failing(server) == []


@pytest.fixture
def broken_inserts(services, monkeypatch):
    def insert_json_rows(*_):
        raise StoreUnavailable("gone", reason="host 10.0.0.7 refused")

    monkeypatch.setattr(Warehouse, "insert_json_rows", insert_json_rows)
    return monkeypatch.undo


def test_a_worker_that_fails_for_a_minute_makes_the_node_not_ready(
    server, client, workspace, clock, broken_inserts
):
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    assert client.post("/api/v1/events", json=event).status_code == 202
    eventually(lambda: failing(server) == ["shipper"])
    answer = server.get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")

    clock.advance(seconds=61)
    answer = server.get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
    assert (answer.json()["database"], answer.json()["warehouse"]) == (True, True)
    [shipper] = [worker for worker in answer.json()["workers"] if worker["failingSince"]]
    assert (shipper["name"], shipper["error"]) == ("shipper", "StoreUnavailable")
    assert shipper["failingSince"].endswith("Z")
    assert "10.0.0.7" not in answer.text

    broken_inserts()
    eventually(lambda: server.get("/health/ready").status_code == 200)
    assert failing(server) == []


def test_a_node_whose_outbox_does_not_empty_is_not_ready(
    server, client, workspace, clock, broken_inserts
):
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    assert client.post("/api/v1/events", json=event).status_code == 202
    document = server.get("/health/ready").json()
    assert document["outbox"]["bundles"] >= 1
    assert document["outbox"]["tooOld"] is False
    clock.advance(seconds=301)
    answer = server.get("/health/ready")
    assert (answer.status_code, answer.json()["outbox"]["tooOld"]) == (503, True)
    assert answer.json()["outbox"]["oldestAgeSeconds"] > 300
    broken_inserts()
    eventually(lambda: server.get("/health/ready").json()["outbox"]["bundles"] == 0)


def test_failed_shipments_are_told(server, client, workspace, broken_inserts):
    outbox = server.get("/health/ready").json()["outbox"]
    assert (outbox["failedShipments"], outbox["lastFailedShipment"]) == (0, None)
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    assert client.post("/api/v1/events", json=event).status_code == 202
    outbox = eventually(
        lambda: (
            (outbox := server.get("/health/ready").json()["outbox"])["failedShipments"] and outbox
        )
    )
    assert outbox["lastFailedShipment"]["error"] == "unavailable"
    page = workspace.browser.get("/system").text
    assert "The last shipment to the event store failed" in page
    broken_inserts()


def test_a_disk_that_hangs_does_not_hang_the_answer(server, services, workspace, monkeypatch):
    answering = Event()
    monkeypatch.setattr(services.health, "_answer_s", 0.2)
    monkeypatch.setattr(service, "read_resources", lambda _: answering.wait())
    try:
        answer = server.get("/health/ready")
        assert (answer.status_code, answer.json()["resources"]) == (200, None)
        assert workspace.browser.get("/system").status_code == 200
    finally:
        answering.set()


def test_readiness_shows_what_the_process_uses(server):
    resources = server.get("/health/ready").json()["resources"]
    assert 0 < resources["openDescriptors"] < resources["descriptorLimit"]
    assert resources["memoryBytes"] > 10_000_000
    assert 0 < resources["diskFreeBytes"] <= resources["diskTotalBytes"]
