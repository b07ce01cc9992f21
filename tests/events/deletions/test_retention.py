"""Retention: events that are older than their website keeps them are deleted; reports say so."""

from collections.abc import Callable
from typing import Any

import pytest
from litestar.testing import TestClient

from penstock.app import Services
from penstock.base.clock import iso
from tests.answers import faults
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.events.deletions.conftest import finished
from tests.funnels.scenario import DAY_S, Scene
from tests.tenant import Tenant

Json = dict[str, Any]
DAY_MS = DAY_S * 1000


@pytest.fixture
def retain(workspace: Tenant, services: Services) -> Callable[..., list[Json]]:
    """Set retention, let the worker look, and give the deletions that it made, newest first."""

    def run(**days: int | None) -> list[Json]:
        address = f"/api/settings/websites/{workspace.website_id}"
        answer = workspace.client.patch(address, json=days)
        assert answer.status_code == 200, answer.text
        services.retention._step()
        records = workspace.client.get("/api/deletions").json()["data"]
        return [finished(workspace.client, record["id"]) for record in records]

    return run


def midnight(clock: ShiftedClock, days_ago: int) -> int:
    return clock() // DAY_MS * DAY_MS - days_ago * DAY_MS


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock, stored_at: Any) -> Scene:
    """Page views and events: two of each were ten days ago, one of each was yesterday."""
    scene = Scene(workspace, clock, ago_s=10 * DAY_S)
    for at_s in (0, 60, 9 * DAY_S):
        scene.story(f"{at_s}/A {at_s + 30}/B")
        page = {"type": "pageview", "visitorId": "v", "path": "/", "timestamp": scene.at(at_s)}
        scene.track([page | {"websiteId": workspace.website_id}])
    assert len(stored_at(workspace.website_id)) == 9
    return scene


def test_events_of_one_kind_are_deleted_when_they_are_too_old(
    scene: Scene, workspace: Tenant, clock: ShiftedClock, retain: Any, stored_at: Any
) -> None:
    [deletion] = retain(pageviewRetentionDays=5)
    assert deletion["target"] == "retention"
    assert (deletion["kind"], deletion["from"]) == ("pageview", None)
    assert deletion["to"] == iso(midnight(clock, 5))
    assert (deletion["eventsFound"], deletion["eventsRemoved"]) == (2, 2)
    assert deletion["removed"] == {"database": {"quarantined": 0}, "warehouse": {"events": 2}}
    kinds = [event["kind"] for event in stored_at(workspace.website_id)]
    assert sorted(kinds) == ["event"] * 6 + ["pageview"]
    assert len(retain()) == 1, "nothing is left to delete today"
    clock.advance(days=5)
    assert [record["eventsRemoved"] for record in retain()] == [1, 2]


def test_a_deleted_website_keeps_its_retention(
    scene: Scene, workspace: Tenant, services: Services, retain: Any, stored_at: Any
) -> None:
    retain(pageviewRetentionDays=400)
    address = f"/api/settings/websites/{workspace.website_id}"
    workspace.client.patch(address, json={"eventRetentionDays": 5})
    assert workspace.client.delete(address).status_code == 204
    services.retention._step()
    [record] = workspace.client.get("/api/deletions").json()["data"]
    assert finished(workspace.client, record["id"])["eventsRemoved"] == 4
    assert len(stored_at(workspace.website_id)) == 5


def test_reports_that_read_deleted_history_say_so(
    scene: Scene, clock: ShiftedClock, retain: Any
) -> None:
    funnel = scene.funnel("A", "B")
    retain(pageviewRetentionDays=5)
    assert scene.results(funnel)["coverage"]["complete"] is True, "reads no page views"
    retain(eventRetentionDays=5)
    coverage = scene.results(funnel)["coverage"]
    begins = iso(midnight(clock, 5))
    assert coverage["complete"] is False
    assert coverage["notes"] == [f"The history of events begins at {begins} because of retention."]
    [gap] = coverage["gaps"]
    assert (gap["kind"], gap["to"]) == ("retention", iso(midnight(clock, 5) - 1))
    later = {"startAt": begins, "endAt": scene.at(9 * DAY_S + 60)}
    assert scene.results(funnel, **later)["coverage"]["gaps"] == []
    retain(eventRetentionDays=None)
    assert scene.results(funnel)["coverage"]["notes"] == coverage["notes"], "it stays deleted"


def test_another_website_keeps_its_events(
    scene: Scene, workspace: Tenant, retain: Any, stored_at: Any
) -> None:
    other = workspace.client.post("/api/settings/websites", json={"name": "B", "kind": "web"})
    item = scene.item(0, "A", "other") | {"websiteId": other.json()["id"]}
    scene.track([item])
    retain(eventRetentionDays=1, pageviewRetentionDays=1)
    assert len(stored_at(other.json()["id"])) == 1


@cases("days", [0, -1, 36_501, "5", 1.5])
def test_days_are_whole_and_at_least_one(workspace: Tenant, days: object) -> None:
    address = f"/api/settings/websites/{workspace.website_id}"
    answer = workspace.client.patch(address, json={"eventRetentionDays": days})
    assert list(faults(answer)) == ["eventRetentionDays"]
    assert workspace.client.get(address).json()["eventRetentionDays"] is None


@pytest.mark.usefixtures("warehouse")
def test_a_deletion_says_what_it_removed_from_which_store(
    workspace: Tenant, server: TestClient[Any], delete: Any
) -> None:
    for visitor in ("phone", "laptop"):
        item = {"websiteId": workspace.website_id, "type": "pageview", "path": "/"}
        workspace.client.post("/api/track", json=item | {"visitorId": visitor})
        claim = {"websiteId": workspace.website_id, "visitorId": visitor, "userId": "u-1"}
        workspace.client.post("/api/identify", json=claim)
    deletion = delete(userId="u-1")
    assert deletion["removed"] == {
        "database": {
            "visitors": 2,
            "userLinks": 1,
            "providerCustomers": 0,
            "cohortVisitors": 0,
            "touches": 0,
            "opensUnlinked": 0,
            "webhookMessages": 0,
            "rejectedTexts": 0,
            "dryRunTexts": 0,
            "quarantined": 0,
        },
        "warehouse": {"merges": 1, "events": 2},
    }
