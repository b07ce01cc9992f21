"""With too little free disk space, only events and small records are stored.

The reserve of free space is larger than any disk here. `tests/faults/test_full_disks.py` fills a
small disk.
"""

import pytest

from penstock.jobs import responses
from penstock.settings import Settings
from tests.funnels.scenario import Scene
from tests.tenant import PASSWORD
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

NDJSON = {"Content-Type": "application/x-ndjson"}
LINE = b'{"type": "event", "name": "a", "visitorId": "v", "timestamp": "2024-05-01T10:00:00Z"}\n'


@pytest.fixture
def settings(settings: Settings) -> Settings:
    low = {"min_free_disk_bytes": 2**62, "stored_outcomes": 3}
    return settings.model_copy(update=low).with_limits(stored_outcomes_after_ms=0)


@pytest.fixture
def scene(workspace, clock):
    return Scene(workspace, clock)


@pytest.fixture
def funnel(client):
    steps = [{"type": "Event", "value": name} for name in "ab"]
    return client.post("/api/funnels", json={"name": "F", "steps": steps}).json()["id"]


def assert_disk_low(answer):
    assert (answer.status_code, answer.json()["code"]) == (507, "disk_low"), answer.text
    assert "ask the operator for more disk space" in answer.json()["detail"]


@pytest.mark.parametrize("is_dry_run", ["false", "true"])
def test_uploads_stop(client, workspace, settings, is_dry_run):
    query = {"websiteId": workspace.website_id, "dryRun": is_dry_run}
    assert_disk_low(client.post("/api/imports", params=query, content=LINE, headers=NDJSON))
    assert list(settings.data.glob("*/*.part")) == []


def test_exports_stop(client, workspace, funnel):
    day = {"websiteId": workspace.website_id, "day": "2024-05-01", "table": "events"}
    period = {"startAt": "1714521600000", "endAt": "1714608000000"}
    for path, query in (
        (f"/api/funnels/{funnel}/export", {}),
        (f"/api/funnels/{funnel}/unit-table", {}),
        (f"/api/funnels/{funnel}/export/units", {}),
        ("/api/attribution/export", {"websiteId": workspace.website_id, **period}),
        ("/api/exports/day", day),
        ("/api/exports/identities", {"websiteId": workspace.website_id}),
    ):
        assert_disk_low(client.get(path, params=query))
        assert_disk_low(client.get(path, params=query, headers={"Prefer": "respond-async"}))
    assert_disk_low(client.post("/api/exports", json={"destination": "d", "format": "ndjson"}))


def test_small_results_of_jobs_are_stored_and_large_ones_are_not(client, funnel, monkeypatch):
    path, later = f"/api/funnels/{funnel}/results", {"Prefer": "respond-async"}
    job = client.get(path, headers=later).json()
    eventually(lambda: client.get(f"/api/jobs/{job['id']}").json()["state"] == "done")
    monkeypatch.setattr(responses, "_IN_MEMORY_BYTES", 10)
    job = client.get(path, headers=later).json()
    eventually(lambda: client.get(f"/api/jobs/{job['id']}").json()["state"] == "failed")
    assert_disk_low(client.get(f"/api/jobs/{job['id']}/result"))


def test_events_log_ins_reports_and_deletions_go_on(client, workspace, server, funnel):
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    assert client.post("/api/v1/events", json=event).status_code == 202
    log_in = {"email": workspace.email, "password": PASSWORD}
    assert server.post("/api/auth/login", json=log_in).status_code == 200
    assert client.get(f"/api/funnels/{funnel}/results").status_code == 200
    deletion = {"websiteId": workspace.website_id, "visitorId": "v"}
    assert client.post("/api/deletions", json=deletion).is_success


def test_the_node_is_ready_and_says_that_it_is_degraded(server, client, workspace):
    answer = server.get("/health/ready")
    document = answer.json()
    assert (answer.status_code, document["status"]) == (200, "degraded")
    assert "uploads, dry runs, imports, exports" in document["reason"]
    assert document["resources"]["minDiskFreeBytes"] == 2**62
    assert client.get("/api/settings/disk").json()["isDiskLow"] is True
    assert "Degraded" in workspace.browser.get("/system").text
    assert "The disk of this service is almost full" in workspace.browser.get("/imports").text


def test_no_outcomes_are_built(scene, client, services):
    funnel = scene.attempts("A", "B")
    path = f"/api/funnels/{funnel}"
    assert client.get(f"{path}/results").status_code == 200
    eventually(lambda: not services.outcome_worker.cache.pending_builds())
    status = client.get(f"{path}/outcomes").json()
    assert (status["state"], status["reason"]) == ("none", "not_stored")
