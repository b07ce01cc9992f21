"""Rejected items are listed for their senders, with every reason and without secrets."""

from typing import Any

import pytest

from tests.tenant import Tenant, visitor

BAD = {"event": "paid", "userId": "ann", "properties": {"$own": 1}, "sesionId": "s"}


def refused(tenant: Tenant, **parameters: Any) -> list[dict[str, Any]]:
    answer = tenant.client.get("/api/events/refused", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def post(tenant: Tenant, route: str, body: Any) -> int:
    return tenant.client.post(route, json=body).status_code


def codes(refusal: dict[str, Any]) -> set[tuple[str, str]]:
    return {(fault["field"], fault["code"]) for fault in refusal["errors"]}


@pytest.mark.parametrize(
    "route", ["/api/v1/events", "/api/v1/transactions", "/api/track", "/api/identify"]
)
def test_a_rejected_item_is_listed_once_with_every_reason(workspace, route):
    body = {"websiteId": workspace.website_id} | BAD
    answer = workspace.client.post(route, json=body)
    assert answer.status_code == 422
    [rejection] = refused(workspace)
    assert rejection["errors"] == answer.json()["errors"]
    assert (rejection["route"], rejection["code"], rejection["websiteId"]) == (
        route,
        "invalid",
        workspace.website_id,
    )
    assert '"sesionId":"s"' in rejection["item"]


def test_an_accepted_event_is_not_listed(workspace):
    assert (
        post(
            workspace,
            "/api/v1/events",
            {"websiteId": workspace.website_id, "event": "e", "userId": "ann"},
        )
        == 202
    )
    assert refused(workspace) == []


@pytest.mark.parametrize("route", ["/api/v1/events/batch", "/api/track"])
def test_rejected_items_of_a_batch_are_listed_one_by_one(workspace, route):
    good = (
        {"event": "e", "userId": "ann"}
        if "v1" in route
        else {"type": "event", "name": "e", "visitorId": "v"}
    )
    items = [good, {"number": 1}, good, "no object"]
    if "v1" in route:
        items = [
            {"websiteId": workspace.website_id} | item if isinstance(item, dict) else item
            for item in items
        ]
        body = {"events": items}
    else:
        body = {"websiteId": workspace.website_id, "events": items[:3]}
    assert workspace.client.post(route, json=body).json()["accepted"] == 2
    rejections = refused(workspace)
    assert [rejection["code"] for rejection in rejections] == ["invalid"] * (
        len(body["events"]) - 2
    )
    assert rejections[-1]["websiteId"] == workspace.website_id
    assert '"number":1' in rejections[-1]["item"]


def test_a_body_rejected_as_a_whole_is_listed_without_its_items(workspace):
    assert post(workspace, "/api/v1/events/batch", {"events": []}) == 422
    assert (
        workspace.client.post(
            "/api/v1/events", content=b"{no json", headers={"Content-Type": "application/json"}
        ).status_code
        == 400
    )
    assert [(one["code"], one["item"]) for one in refused(workspace)] == [
        ("not_json", None),
        ("invalid", None),
    ]


def test_an_item_for_a_foreign_website_is_listed_for_its_sender_only(workspace, other_workspace):
    body = {"websiteId": other_workspace.website_id, "event": "e", "userId": "ann"}
    assert post(workspace, "/api/v1/events", body) == 401
    [rejection] = refused(workspace, websiteId=workspace.website_id)
    assert (rejection["code"], rejection["websiteId"], codes(rejection)) == (
        "website_not_owned",
        None,
        {("", "website_not_owned")},
    )
    assert refused(other_workspace) == []


def test_an_item_without_website_and_key_is_listed_for_nobody(workspace, server):
    assert (
        visitor(server).post("/api/track", json={"websiteId": "web_unknown"} | BAD).status_code
        == 422
    )
    assert refused(workspace) == []


def test_a_website_has_its_own(workspace):
    other = workspace.client.post(
        "/api/settings/websites", json={"name": "Other", "kind": "web"}
    ).json()["id"]
    post(workspace, "/api/track", {"websiteId": other} | BAD)
    assert refused(workspace, websiteId=workspace.website_id) == []
    assert len(refused(workspace, websiteId=other)) == 1
    assert (
        workspace.client.get("/api/events/refused", params={"websiteId": "web_unknown"}).status_code
        == 401
    )


def test_the_last_500_are_listed_newest_first(workspace):
    items = [{"websiteId": workspace.website_id, "n": n} for n in range(50)]
    for _ in range(11):
        post(workspace, "/api/v1/events/batch", {"events": items})
    page = workspace.client.get("/api/events/refused", params={"pageSize": 100}).json()
    assert (page["total"], len(page["data"])) == (500, 100)
    numbers = [one["number"] for one in page["data"]]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("password", "hunter2hunter2"),
        ("apiKey", "abcdefgh"),
        ("card_number", 4242424242424242),
        ("note", "psk_abcdefgh"),
        ("note", "Bearer abcdefgh"),
        ("ip", "203.0.113.7"),
        ("ip", "2001:db8::7"),
        ("link", "https://example.com/reset?code=abcdefgh"),
    ],
)
def test_secrets_and_network_addresses_are_hidden(workspace, field, value):
    post(
        workspace,
        "/api/track",
        {"websiteId": workspace.website_id, "properties": {field: value, "plan": "pro"}},
    )
    [rejection] = refused(workspace)
    shown = str(value).rpartition("=")[2]
    assert shown not in rejection["item"]
    assert '"plan":"pro"' in rejection["item"]


def test_a_long_item_is_shortened(workspace):
    deep: Any = "x" * 5_000
    for _ in range(20):
        deep = {"a": [deep, *range(9)]}
    post(
        workspace,
        "/api/track",
        {
            "websiteId": workspace.website_id,
            "title": "é" * 900,
            "deep": deep,
            **{f"f{n}": n for n in range(900)},
        },
    )
    [rejection] = refused(workspace)
    assert len(rejection["item"]) <= 1_000
