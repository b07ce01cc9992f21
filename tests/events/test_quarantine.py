"""Refused events are stored for their senders, with every reason, and can be replayed."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from penstock.base.clock import iso, system_clock
from penstock.base.ids import ScopeId, WebsiteId
from penstock.events import intake
from penstock.events.model import Kind, NewEvent, Source
from penstock.events.property_keys import PropertyKeys
from penstock.events.transaction import store_items
from tests.answers import body_of, columns_of
from tests.cases import cases
from tests.events.conftest import imported
from tests.records import new_website
from tests.tenant import Tenant, new_browser, visitor

BAD = {"event": "paid", "userId": "ann", "properties": {"$own": 1}, "sesionId": "s"}


def refused(tenant: Tenant, **parameters: Any) -> list[dict[str, Any]]:
    return body_of(tenant.client.get("/api/events/refused", params=parameters))["data"]


def counted(tenant: Tenant) -> dict[str, Any]:
    """The counts of the tenant's first website, which balance at any time."""
    answer = tenant.client.get("/api/events/counts")
    [counts] = [
        record for record in answer.json()["data"] if record["websiteId"] == tenant.website_id
    ]
    parts = ("stored", "duplicates", "refused", "quarantined", "waiting")
    assert counts["received"] == sum(counts[part] for part in parts), counts
    return counts


def post(tenant: Tenant, route: str, body: Any) -> int:
    return tenant.client.post(route, json=body).status_code


def codes(refusal: dict[str, Any]) -> set[tuple[str, str]]:
    return {(fault["field"], fault["code"]) for fault in refusal["errors"]}


@cases("route", ["/api/v1/events", "/api/v1/transactions", "/api/track", "/api/identify"])
def test_a_rejected_item_is_listed_once_with_every_reason(workspace, route):
    body = {"websiteId": workspace.website_id} | BAD
    before = len(refused(workspace))
    answer = workspace.client.post(route, json=body)
    assert answer.status_code == 422
    rejection, *others = refused(workspace)
    assert len(others) == before
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
    answer = workspace.client.post(
        "/api/v1/events", content=b"{no json", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert columns_of(refused(workspace), "code", "item") == [("not_json", None), ("invalid", None)]


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
    answer = visitor(server).post("/api/track", json={"websiteId": "web_unknown"} | BAD)
    assert answer.status_code == 422
    assert refused(workspace) == []


def test_a_website_has_its_own(workspace):
    other = new_website(workspace.client, "Other")
    post(workspace, "/api/track", {"websiteId": other} | BAD)
    assert refused(workspace, websiteId=workspace.website_id) == []
    assert len(refused(workspace, websiteId=other)) == 1
    answer = workspace.client.get("/api/events/refused", params={"websiteId": "web_unknown"})
    assert answer.status_code == 401


@pytest.mark.parametrize("limits", [{"quarantine_rows": 120}, {"quarantine_bytes": 20_000}])
def test_a_website_keeps_the_newest_within_its_limits(workspace, limits):
    items = [{"websiteId": workspace.website_id, "n": n} for n in range(100)]
    for _ in range(3):
        post(workspace, "/api/v1/events/batch", {"events": items})
    page = workspace.client.get("/api/events/refused", params={"pageSize": 100}).json()
    assert page["total"] <= 120
    numbers = [record["number"] for record in page["data"]]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == 300
    counts = counted(workspace)
    assert (counts["refused"], counts["dropped"]) == (300, 300 - page["total"])


@cases(
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
    rejection, *_ = refused(workspace)
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


# Sending again


FEW_KEYS = pytest.mark.parametrize("limits", [{"max_website_property_keys": 3}], ids=["few keys"])


def new_event(website_id: str, properties: dict[str, Any]) -> NewEvent:
    now_ms = system_clock()
    return NewEvent(
        WebsiteId(website_id), ScopeId(website_id), Kind.EVENT, "e", Source.SERVER,
        now_ms, now_ms, now_ms, "v", None, b"", properties=properties, is_public=False,
    )  # fmt: skip


def numbered(tenant: Tenant, *keys: str, **fields: Any) -> dict[str, Any]:
    properties = dict.fromkeys(keys, 1)
    return (
        {"websiteId": tenant.website_id, "userId": "ann", "event": "e"}
        | fields
        | {"properties": properties}
    )


def track(client: httpx.Client, tenant: Tenant, *keys: str) -> int:
    event = {"websiteId": tenant.website_id, "visitorId": "v", "type": "event", "name": "e"}
    body = {**event, "properties": dict.fromkeys(keys, 1)}
    return client.post("/api/track", json=body).status_code


@FEW_KEYS
def test_a_website_may_have_a_limited_number_of_property_keys(workspace, services):
    assert post(workspace, "/api/v1/events", numbered(workspace, "a", "b")) == 202
    assert post(workspace, "/api/v1/events", numbered(workspace, "b", "c")) == 202
    answer = workspace.client.post("/api/v1/events", json=numbered(workspace, "a", "d"))
    [fault] = body_of(answer, 422)["errors"]
    assert (fault["field"], fault["code"]) == ("properties", "too_many_property_keys")
    assert "at most 3 different property keys" in fault["message"]
    assert "Send what varies as a value" in fault["message"]
    assert post(workspace, "/api/v1/events", numbered(workspace, "c", "a", "b")) == 202
    [rejection] = refused(workspace)
    assert codes(rejection) == {("properties", "too_many_property_keys")}


@FEW_KEYS
def test_what_anyone_may_send_leaves_half_of_the_property_keys_to_backends(workspace):
    assert [track(new_browser(workspace), workspace, *keys) for keys in ("ab", "ac")] == [202, 422]
    assert post(workspace, "/api/v1/events", numbered(workspace, "a", "c")) == 202


@FEW_KEYS
def test_a_backend_may_add_all_property_keys_by_the_route_of_browsers(workspace):
    assert track(workspace.client, workspace, "a", "b", "c") == 202


@FEW_KEYS
def test_a_replay_of_what_anyone_sent_adds_no_more_property_keys_than_itself(workspace):
    track(new_browser(workspace), workspace, "a", "b", "c")
    [entry] = refused(workspace)
    assert codes(entry) == {("properties", "too_many_property_keys")}
    assert replay(workspace, entry["number"]).status_code == 422


@FEW_KEYS
def test_the_limit_of_property_keys_holds_on_every_node_and_after_a_restart(workspace, services):
    post(workspace, "/api/v1/events", numbered(workspace, "a", "b", "c"))
    keys = PropertyKeys(3)  # of another node
    event = new_event(workspace.website_id, {"a": 1, "x": 1})
    with services.database.write() as db:
        [fault], _ = keys.faults(db, [event])
    assert fault is not None
    assert fault.code == "too_many_property_keys"


@pytest.mark.parametrize(
    ("limits", "route", "client"),
    [
        ({"max_website_property_keys": 3}, "/api/v1/events/batch", lambda tenant: tenant.client),
        ({"max_website_property_keys": 3}, "/api/track", lambda tenant: tenant.client),
        ({"max_website_property_keys": 6}, "/api/track", new_browser),  # half of them
    ],
    ids=["events", "track with a key", "track"],
)
def test_an_event_over_the_limit_of_keys_costs_no_other_of_its_batch(workspace, route, client):
    form = {"type": "event", "name": "e", "visitorId": "v", "event": "e"}
    drop = ("event",) if "track" in route else ("type", "name")
    items = [
        {key: value for key, value in (form | numbered(workspace, *keys)).items()
         if key not in drop and not (key == "userId" and "track" in route)}
        for keys in ("abc", "abd", "bca")
    ]  # fmt: skip
    answer = client(workspace).post(route, json={"events": items}).json()
    assert [record["status"] for record in answer["results"]] == [
        "accepted",
        "rejected",
        "accepted",
    ]
    assert counted(workspace)["refused"] == 1


@FEW_KEYS
def test_a_refused_event_uses_up_no_id_and_no_key(workspace):
    event = numbered(workspace, "a", "b", "c", "d", eventId="once")
    twice = workspace.client.post("/api/v1/events/batch", json={"events": [event, event]}).json()
    assert [record["status"] for record in twice["results"]] == ["rejected", "rejected"]
    assert (
        post(workspace, "/api/v1/events", numbered(workspace, "a", "b", "x", eventId="once")) == 202
    )


@FEW_KEYS
def test_an_import_rejects_lines_with_new_keys_over_the_limit(workspace):
    at = "2026-01-01T00:00:00Z"
    lines = [
        {"type": "event", "name": "e", "userId": "u", "timestamp": at,
         "properties": dict.fromkeys(keys, 1)}
        for keys in ("abc", "xyz", "ab")
    ]  # fmt: skip
    job = imported(workspace, lines)
    assert (job["accepted"], job["rejected"]) == (2, 1)
    counts = counted(workspace)
    assert (counts["received"], counts["refused"]) == (3, 1)


def replay(tenant: Tenant, number: int) -> httpx.Response:
    return tenant.client.post(f"/api/events/refused/{number}/replay")


@FEW_KEYS
def test_a_refused_event_is_stored_as_of_its_receipt_once_it_is_valid(
    workspace, services, stored, clock
):
    post(workspace, "/api/v1/events", numbered(workspace, "a", "b", "c"))
    post(workspace, "/api/v1/events", numbered(workspace, "d", event="late"))
    [rejection] = refused(workspace)
    assert replay(workspace, rejection["number"]).status_code == 422
    services.intake._property_keys._limit = 10  # the operator raised the setting
    clock.advance(days=1)
    assert replay(workspace, rejection["number"]).status_code == 204
    assert refused(workspace) == []
    [event] = [record for record in stored() if record["name"] == "late"]
    assert iso(event["received_at"]) == rejection["at"]
    counts = counted(workspace)
    assert (counts["received"], counts["refused"], counts["stored"]) == (2, 0, 2)
    assert replay(workspace, rejection["number"]).status_code == 404


@FEW_KEYS
def test_a_replay_of_what_anyone_sent_uses_up_no_dedupe_key_of_a_backend(workspace, services):
    item = {
        "websiteId": workspace.website_id, "type": "event", "name": "e", "visitorId": "v",
        "dedupeKey": "order-1", "properties": {"a": 1, "b": 1, "c": 1},
    }  # fmt: skip

    def status(client):
        [result] = client.post("/api/track", json=item).json()["results"]
        return result["status"]

    assert new_browser(workspace).post("/api/track", json=item).status_code == 422
    [entry] = refused(workspace)
    services.intake._property_keys._limit = 10  # the operator raised the setting
    assert replay(workspace, entry["number"]).status_code == 204
    assert [status(new_browser(workspace)), status(workspace.client)] == ["duplicate", "accepted"]


@FEW_KEYS
def test_everything_of_a_website_is_replayed_and_what_is_still_wrong_stays(workspace, services):
    for key in "abcdef":
        post(workspace, "/api/v1/events", numbered(workspace, key))
    post(workspace, "/api/v1/events", {"websiteId": workspace.website_id} | BAD)
    assert len(refused(workspace)) == 4
    services.intake._property_keys._limit = 10
    answer = workspace.client.post(
        "/api/events/refused/replay", json={"websiteId": workspace.website_id}
    )
    assert answer.json() == {"replayed": 3, "refused": 1}
    [rejection] = refused(workspace)
    assert ("sesionId", "unknown_field") in codes(rejection)
    assert (counted(workspace)["received"], counted(workspace)["refused"]) == (7, 1)


@FEW_KEYS
def test_many_entries_are_replayed_in_one_commit(workspace, services, stored, monkeypatch):
    for number in range(18):
        post(
            workspace,
            "/api/v1/events",
            numbered(workspace, "abc"[number % 3] if number < 3 else f"x{number}"),
        )
    assert len(refused(workspace)) == 15
    services.intake._property_keys._limit = 100
    commits = []

    def counted_commit(connection, items, *more):
        commits.append(len(items))
        return store_items(connection, items, *more)

    monkeypatch.setattr(intake, "store_items", counted_commit)
    form = {"websiteId": workspace.website_id}
    answer = workspace.client.post("/api/events/refused/replay", json=form)
    assert answer.json() == {"replayed": 15, "refused": 0}
    assert commits == [15]
    assert len(stored()) == 18


def test_a_refused_body_waits_for_its_turn_before_it_is_read_again(
    workspace, services, monkeypatch
):
    turns = []
    run = services.validation.run

    async def run_in_turn(key, call, *arguments):
        turns.append((key, getattr(call, "func", call).__name__))
        return await run(key, call, *arguments)

    monkeypatch.setattr(services.validation, "run", run_in_turn)
    body = {"events": [{"websiteId": workspace.website_id} | BAD] * 3}
    assert post(workspace, "/api/v1/events/batch", body) == 202
    owner = turns[0][0]
    assert turns == [(owner, "_validate_events"), (owner, "_refusals_of_items")]
    assert len(refused(workspace)) == 3


@FEW_KEYS
def test_two_replays_at_once_store_one_event(workspace, services, stored):
    for key in "abcd":
        post(workspace, "/api/v1/events", numbered(workspace, key))
    services.intake._property_keys._limit = 10
    [rejection] = refused(workspace)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: replay(workspace, rejection["number"]), range(4)))
    assert sorted(answer.status_code for answer in answers) == [204, 404, 404, 404]
    assert len(stored()) == 4


def test_the_quarantine_of_another_workspace_is_unknown(workspace, other_workspace):
    post(workspace, "/api/v1/events", {"websiteId": workspace.website_id} | BAD)
    [rejection] = refused(workspace)
    assert replay(other_workspace, rejection["number"]).status_code == 404
    form = {"websiteId": workspace.website_id}
    assert other_workspace.client.post("/api/events/refused/replay", json=form).status_code == 401
    assert other_workspace.client.get("/api/events/refused/export", params=form).status_code == 401


def test_an_export_has_every_entry_as_it_was_sent(workspace):
    body = {"websiteId": workspace.website_id, "note": "x" * 5000} | BAD
    post(workspace, "/api/v1/events", body)
    export = workspace.client.get(
        "/api/events/refused/export", params={"websiteId": workspace.website_id}
    )
    assert export.headers["content-type"] == "application/x-ndjson"
    [line] = export.text.splitlines()
    assert json.loads(json.loads(line)["content"]) == body


def test_deleting_a_visitor_deletes_what_the_quarantine_has_of_it(workspace):
    post(workspace, "/api/v1/events", numbered(workspace, "a"))
    for user in ("ann", "bob"):
        post(workspace, "/api/v1/events", {"websiteId": workspace.website_id, "userId": user})
    form = {"websiteId": workspace.website_id, "userId": "ann"}
    answer = workspace.client.post("/api/deletions", json=form)
    assert answer.status_code in (201, 202), answer.text
    assert [record["item"] for record in refused(workspace) if "ann" in record["item"]] == []
    assert len(refused(workspace)) == 1
    assert counted(workspace)["dropped"] == 1
