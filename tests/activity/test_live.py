"""Recent events: each is returned once, and which are left out."""

import base64
from typing import Any

import pytest

from penstock.activity.live.cursor import BEHIND_MS, Cursor
from tests.answers import body_of
from tests.cases import cases
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")


def send(tenant: Tenant, *names: str, **more: Any) -> None:
    items = [
        {"websiteId": tenant.website_id, "event": name, "userId": "ann"} | more for name in names
    ]
    answer = tenant.client.post("/api/v1/events/batch", json={"events": items})
    assert answer.json()["accepted"] == len(names), answer.text


def recent(tenant: Tenant, **parameters: Any) -> dict[str, Any]:
    return body_of(tenant.client.get("/api/events/recent", params=parameters))


def names(answer: dict[str, Any]) -> list[str]:
    return [record["name"] for record in answer["data"]]


def test_the_first_request_returns_the_newest_events_with_properties(workspace, clock):
    send(workspace, "a", properties={"plan": "pro", "deep": {"n": [1]}})
    clock.advance(seconds=1)
    send(workspace, "b", timestamp="2026-01-01T00:00:00Z")
    answer = recent(workspace)
    assert names(answer) == ["b", "a"]
    assert answer["data"][1]["properties"] == {"plan": "pro", "deep": {"n": [1]}}
    assert (
        answer["data"][0]["occurredAt"]
        == "2026-01-01T00:00:00.000Z"
        < answer["data"][0]["receivedAt"]
    )
    assert names(recent(workspace, limit=1)) == ["b"]


@pytest.mark.parametrize("days", [0, 2, 100])
def test_the_first_request_reads_back_until_it_has_enough_events(workspace, clock, days):
    send(workspace, "a")
    clock.advance(days=days)
    assert names(recent(workspace)) == ["a"]


def test_a_cursor_returns_each_event_once(workspace, clock):
    send(workspace, "a")
    answer = recent(workspace)
    returned_names = names(answer)
    for name in ("b", "c", "d", "e"):
        clock.advance(seconds=2)
        send(workspace, name)
        answer = recent(workspace, after=answer["cursor"])
        returned_names += names(answer)
        assert answer["skipped"] is False
    assert returned_names == ["a", "b", "c", "d", "e"]
    assert recent(workspace, after=answer["cursor"])["data"] == []


def test_an_overtaken_event_is_returned_later(clock):
    now_ms = clock()
    after = Cursor().advance([("evt_late", now_ms - 100)], now_ms, all_read=True)
    assert after.after_ms == now_ms - BEHIND_MS
    assert after.has_returned("evt_late")
    assert not after.has_returned("evt_overtaken")
    assert Cursor.parse(str(after)) == after


def test_events_beyond_the_limit_are_reported_as_skipped(workspace, clock):
    answer = recent(workspace)
    clock.advance(seconds=1)
    send(workspace, "a", "b", "c")
    answer = recent(workspace, after=answer["cursor"], limit=2)
    assert (len(answer["data"]), answer["skipped"]) == (2, True)
    answer = recent(workspace, after=answer["cursor"], limit=2)
    assert (answer["data"], answer["skipped"]) == ([], False)


def test_skipped_events_are_not_new_later(workspace):
    send(workspace, "a", "b", "c", "d")
    answer = recent(workspace, limit=1)
    assert len(answer["data"]) == 1
    assert recent(workspace, after=answer["cursor"], limit=10)["data"] == []


def test_a_cursor_stays_short_however_many_events_there_are(clock):
    now_ms = clock()
    after = Cursor().advance(
        [(f"evt_{n}", now_ms - n) for n in range(2_000)], now_ms, all_read=True
    )
    assert len(str(after)) < 3_000
    assert after.after_ms == now_ms - 400


@pytest.fixture
def view_and_payment(workspace):
    page = {"websiteId": workspace.website_id, "type": "pageview", "path": "/", "visitorId": "v"}
    assert workspace.client.post("/api/track", json=page).status_code == 202
    send(workspace, "paid", properties={"checkoutId": 7, "plan": 'p"ü'})


@pytest.mark.usefixtures("view_and_payment")
@cases(
    ("parameters", "expected"),
    [
        ({"name": "/"}, ["/"]),
        ({"kind": "pageview"}, ["/"]),
        ({"source": "server"}, ["paid"]),
        ({"visitorId": "v"}, ["/"]),
        ({"visitorId": "nobody"}, []),
        ({"property": "checkoutId", "value": "7"}, ["paid"]),
        ({"property": "plan", "value": 'p"ü'}, ["paid"]),
        ({"property": "plan", "value": "pro"}, []),
        ({"kind": "event", "name": "/"}, []),
    ],
)
def test_filters(workspace, parameters, expected):
    assert names(recent(workspace, **parameters)) == expected


def test_a_visitor_is_found_by_any_of_its_ids(workspace):
    send(workspace, "a", visitorId="phone")
    body = {"websiteId": workspace.website_id, "visitorId": "laptop", "userId": "ann"}
    answer = workspace.client.post("/api/identify", json=body)
    assert answer.json() == {"visitorId": "phone", "merged": True}
    assert names(recent(workspace, visitorId="laptop")) == ["a"]


def test_another_workspace_sees_nothing(workspace, other_workspace):
    send(workspace, "a")
    assert recent(other_workspace)["data"] == []
    query = {"websiteId": workspace.website_id}
    answer = other_workspace.client.get("/api/events/recent", params=query)
    assert answer.status_code == 401


@cases(
    ("parameters", "field"),
    [
        ({"after": "nonsense!"}, "after"),
        ({"after": base64.urlsafe_b64encode(b"\xff" * 12).decode()}, "after"),
        ({"after": "ü"}, "after"),
        ({"property": "plan"}, "value"),
        ({"value": "pro"}, "property"),
        ({"limit": 101}, "limit"),
        ({"kind": "click"}, "kind"),
        ({"name": ""}, "name"),
    ],
)
def test_bad_parameters_are_named(client, parameters, field):
    response = client.get("/api/events/recent", params=parameters)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (400, field)
