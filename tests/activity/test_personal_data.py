"""The right of access: a file with everything that is stored about a person."""

import json
from collections import Counter
from itertools import count
from typing import Any

import pytest

from penstock.warehouse import work
from tests.activity.test_visitors import identify, send
from tests.answers import problem
from tests.events.conftest import imported
from tests.tenant import Tenant, new_browser


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def exported(tenant: Tenant, **who: str) -> list[dict[str, Any]]:
    parameters = {"websiteId": tenant.website_id} | who
    answer = tenant.client.get("/api/personal-data", params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert "personal-data.ndjson" in answer.headers["content-disposition"]
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.every_database
def test_the_file_has_identity_and_all_events_of_the_person_alone(workspace: Tenant) -> None:
    for visitor_id in ("phone", "laptop"):
        identify(workspace, visitor_id, "u-1", traits={"city": "Łódź"})
        send(workspace, visitorId=visitor_id, properties={"device": visitor_id})
    send(workspace, userId="u-1", event="bought")
    send(workspace, visitorId="somebody else")
    by_user = exported(workspace, userId="u-1")
    assert Counter(line["type"] for line in by_user) == {
        "visitor": 1,
        "user": 1,
        "merge": 1,
        "event": 3,
    }
    data = {line["type"]: line["data"] for line in by_user}
    assert sorted(data["visitor"]["ids"]) == ["laptop", "phone"]
    assert data["user"]["traits"] == {"city": "Łódź"}
    events = [line["data"] for line in by_user if line["type"] == "event"]
    assert {event["properties"].get("device") for event in events} == {"phone", "laptop", None}
    assert exported(workspace, visitorId="phone") == by_user


def test_the_file_has_values_of_traits_that_may_hold_again(workspace: Tenant) -> None:
    body = {"websiteId": workspace.website_id, "visitorId": "v", "userId": "u"}
    public = new_browser(workspace).post("/api/identify", json={**body, "traits": {"plan": "b"}})
    assert public.status_code == 200
    at = "2024-05-01T10:00:00.000Z"
    line = {"type": "identify", "userId": "u", "timestamp": at, "traits": {"plan": "a"}}
    assert imported(workspace, [line])["state"] == "done"
    data = [each["data"] for each in exported(workspace, userId="u") if each["type"] == "trait"]
    assert data == [{"name": "plan", "value": "a", "statedAt": at}]
    identify(workspace, "v", "u", traits={"plan": None})
    assert not [each for each in exported(workspace, userId="u") if each["type"] == "trait"]


def test_a_person_whose_data_were_deleted_is_unknown(workspace: Tenant) -> None:
    send(workspace, visitorId="v")
    body = {"websiteId": workspace.website_id, "visitorId": "v"}
    assert workspace.client.post("/api/deletions", json=body).status_code == 201
    answer = workspace.client.get("/api/personal-data", params=body)
    assert problem(answer) == (404, "visitor_not_found")


def test_a_person_is_named_by_one_id(workspace: Tenant) -> None:
    for who in ({}, {"visitorId": "v", "userId": "u"}, {"visitorId": ""}):
        parameters = {"websiteId": workspace.website_id} | who
        assert workspace.client.get("/api/personal-data", params=parameters).status_code == 400


def test_another_workspaces_website_is_refused(workspace: Tenant, other_workspace: Tenant) -> None:
    parameters = {"websiteId": other_workspace.website_id, "visitorId": "v"}
    answer = workspace.client.get("/api/personal-data", params=parameters)
    assert problem(answer) == (401, "website_not_owned")


@pytest.mark.usefixtures("warehouse")
def test_reading_rejected_events_has_the_time_limit_of_queries(
    workspace: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(workspace, visitorId="v")
    body = {"websiteId": workspace.website_id, "event": "", "visitorId": "v"}
    assert workspace.client.post("/api/v1/events", json=body).status_code == 422
    assert [line["type"] for line in exported(workspace, visitorId="v")][1:2] == ["rejected"]
    seconds = count(0, 10_000)
    monkeypatch.setattr(work, "monotonic", lambda: next(seconds))
    parameters = {"websiteId": workspace.website_id, "visitorId": "v"}
    answer = workspace.client.get("/api/personal-data", params=parameters)
    assert problem(answer) == (503, "query_timeout")
    assert "queryTimeoutSeconds" in answer.json()["detail"]
