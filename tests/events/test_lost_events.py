"""Events that clients dropped: counted by day, in data quality and among recent events."""

from typing import Any

import pytest

from penstock.base.clock import iso
from tests.answers import body_of
from tests.funnels.scenario import Scene
from tests.records import new_website
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

DAY_MS = 86_400_000


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def scene(workspace: Tenant, clock) -> Scene:
    return Scene(workspace, clock, ago_s=0)


def report_loss(scene: Scene, events: int, key: str | None = None) -> None:
    item = scene.item(0, "seen") | {"droppedBefore": events}
    scene.track([item if key is None else item | {"dedupeKey": key}])


def lost_in_report(scene: Scene, funnel: str, **parameters: Any) -> tuple[int, bool]:
    """`lostOnDevices`, and whether the report is complete."""
    report = body_of(scene.client.get(f"/api/funnels/{funnel}/results", params=parameters))
    return report["dataQuality"]["lostOnDevices"], report["coverage"]["complete"]


def test_a_report_has_those_of_its_period_and_stays_complete(scene, clock):
    scene.story("0/A 60/B")
    clock.advance(days=200)  # every conversion window is over
    now_ms = clock()
    funnel = scene.funnel("A", "B", conversionWindowSeconds=3600)
    assert lost_in_report(scene, funnel) == (0, True)
    report_loss(scene, 3, key="d-1")
    report_loss(scene, 3, key="d-1")
    report_loss(scene, 4)
    assert lost_in_report(scene, funnel) == (7, True)
    for start_ms, end_ms, lost in (
        (now_ms - DAY_MS, now_ms + DAY_MS, 7),
        (now_ms - 90 * DAY_MS, now_ms - 80 * DAY_MS, 0),
        (now_ms + 2 * DAY_MS, now_ms + 3 * DAY_MS, 0),
    ):
        period = {"startAt": iso(start_ms), "endAt": iso(end_ms)}
        assert lost_in_report(scene, funnel, **period)[0] == lost


def test_a_report_has_those_of_its_websites(scene, workspace):
    other = new_website(workspace.client, "Blog")
    report_loss(scene, 5)
    funnel = scene.funnel("A", "B")
    assert lost_in_report(scene, funnel, websiteId=workspace.website_id)[0] == 5
    assert lost_in_report(scene, funnel, websiteId=other)[0] == 0


def test_recent_events_say_what_was_lost_since_yesterday(scene, workspace, clock):
    def lost() -> int:
        answer = workspace.client.get("/api/events/recent", params={"name": "none"})
        return answer.json()["lostOnDevices"]

    assert lost() == 0
    report_loss(scene, 2)
    assert lost() == 2
    page = workspace.browser.get("/live").text
    assert "lost on devices" in page
    clock.advance(days=2)
    assert lost() == 0
    assert "lost on devices" not in workspace.browser.get("/live").text


@pytest.mark.parametrize("path", ["events", "events/batch", "transactions"])
def test_backends_report_them_like_devices(workspace, path):
    def report(count: Any, key: str = "e-1") -> dict[str, Any]:
        event = {"websiteId": workspace.website_id, "userId": "u-1", "event": "paid"}
        body = event | {"eventId": key, "droppedBefore": count}
        is_batch = path == "events/batch"
        answer = workspace.client.post(
            f"/api/v1/{path}", json={"events": [body]} if is_batch else body
        ).json()
        return answer["results"][0] if is_batch else answer

    assert [report(3)["status"] for _ in range(2)] == ["accepted", "duplicate"]
    for wrong in (0, -1, 1.5, "3", True, 10**9 + 1):
        [error] = report(wrong, key="e-2")["errors"]
        assert (error["field"], error["code"]) == ("droppedBefore", "not_a_count")
    [counts] = workspace.client.get("/api/events/counts").json()["data"]
    assert counts["lostOnDevices"] == 3


def test_the_page_of_a_report_shows_them(scene, workspace):
    report_loss(scene, 1)
    part = workspace.browser.get(
        f"/funnels/{scene.funnel('A', 'B')}?period=all&show=quality",
        headers={"HX-Request": "true", "HX-Target": "detail"},
    )
    assert "event lost on devices" in part.text


def test_the_largest_reports_add_up(scene):
    """Each is bounded by its field, so their sum fits into the column."""
    for _ in range(10):
        report_loss(scene, 10**9)
    assert lost_in_report(scene, scene.funnel("A", "B"))[0] == 10**10
