"""Limits that two nodes keep together, and limits that each of them counts alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.funnels.segments.service import SavedSegmentService
from penstock.settings import Settings
from tests.tenant import visitor

LINE = b'{"event":"A","visitorId":"v","timestamp":"2026-01-01T00:00:00Z"}\n'
FILE = LINE * 10


@pytest.fixture
def limits() -> dict[str, int]:
    """Settings to override. Empty by default; parametrize this fixture to set them."""
    return {}


@pytest.fixture
def settings(settings: Settings, limits: dict[str, int]) -> Settings:
    return settings.model_copy(update=limits)


def upload(node, website_id):
    return node.client.post(
        "/api/imports",
        params={"websiteId": website_id, "dryRun": "true"},
        content=FILE,
        headers={"Content-Type": "application/x-ndjson"},
    )


def accepted_events(node, website_id, number):
    """Post events without a key at a node. Returns how many it accepts."""
    browser = visitor(node.server)
    event = {"websiteId": website_id, "visitorId": "v", "type": "event", "name": "A"}
    codes = [browser.post("/api/track", json=event).status_code for _ in range(number)]
    assert set(codes) <= {202, 429}
    return codes.count(202)


@pytest.mark.parametrize("limits", [{"workspace_files_bytes": 2 * len(FILE) + 1}])
def test_both_nodes_use_one_budget_for_waiting_files(nodes, workspace):
    first, second = nodes
    jobs = [upload(node, workspace.website_id).json() for node in nodes]
    for node in nodes:
        refused = upload(node, workspace.website_id)
        assert (refused.status_code, refused.json()["code"]) == (507, "workspace_disk_full")
        assert node.client.get("/api/settings/disk").json()["usedBytes"] == 2 * len(FILE)
    assert second.client.post(f"/api/imports/{jobs[0]['id']}/cancel").status_code == 200
    assert upload(first, workspace.website_id).status_code == 201


def test_records_created_at_both_nodes_at_once_stay_within_the_maximum(nodes, monkeypatch):
    monkeypatch.setattr(SavedSegmentService, "maximum", 3)

    def create(number):
        segment = {
            "name": f"Segment {number}",
            "filters": [{"property": "plan", "operator": "equals", "value": "pro"}],
        }
        return nodes[number % 2].client.post("/api/segments", json=segment).status_code

    with ThreadPoolExecutor(4) as threads:
        codes = list(threads.map(create, range(8)))
    assert sorted(codes) == [201] * 3 + [409] * 5
    assert all(node.client.get("/api/segments").json()["total"] == 3 for node in nodes)


@pytest.mark.parametrize("limits", [{"daily_events": 6}])
def test_both_nodes_count_the_daily_events_of_a_website_together(nodes, workspace):
    accepted = [accepted_events(node, workspace.website_id, 5) for node in nodes]
    assert accepted == [5, 1]


@pytest.mark.parametrize("limits", [{"website_events_per_second": 2, "nodes": 2}])
def test_each_node_allows_its_share_of_the_rate_of_a_website(nodes, workspace):
    accepted = [accepted_events(node, workspace.website_id, 30) for node in nodes]
    assert accepted == [10, 10]  # two a second over ten seconds


@pytest.mark.parametrize("limits", [{"nodes": 2}])
def test_each_node_allows_its_share_of_guesses_and_queries(nodes, workspace):
    guess = {"email": workspace.email, "password": "wrong password 1"}
    for node in nodes:
        codes = [
            visitor(node.server).post("/api/auth/login", json=guess).status_code for _ in range(7)
        ]
        assert (codes.count(401), codes.count(429)) == (5, 2)  # ten guesses in five minutes


@pytest.mark.parametrize("limits", [{"website_events_per_second": 1}])
def test_each_node_counts_the_rate_of_a_website_alone(nodes, workspace):
    accepted = [accepted_events(node, workspace.website_id, 30) for node in nodes]
    assert accepted[0] == accepted[1] < 30
