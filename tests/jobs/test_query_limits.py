"""A workspace's own limits of queries, within the operator's."""

import pytest

from penstock.settings import Settings
from tests.answers import faults, problem
from tests.recording_warehouse import ENDLESS, MUCH_MEMORY
from tests.tenant import BASE_URL
from tests.waiting import PATIENCE_S

SETTINGS = "/api/settings/workspace"
MB = 1024**2


@pytest.fixture
def settings(tmp_path, metadb_url):
    return Settings(
        data=tmp_path,
        database_url=metadb_url,
        public_url=BASE_URL,
        signup_open=True,
        query_timeout_s=20,
        query_memory_bytes=256 * MB,
    ).with_limits(fresh_wait_s=PATIENCE_S)


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B")
    return scene.funnel("A", "B")


def test_the_operators_limits_hold_until_the_workspace_chooses(client):
    operators = {"queryTimeoutSeconds": 20.0, "queryMemoryBytes": 256 * MB}
    assert client.get(SETTINGS).json() == {
        "name": "Acme",
        "personTrait": None,
        "sharedContents": "figures",
        "sharedProperties": [],
        "queryTimeoutSeconds": None,
        "queryMemoryBytes": None,
        "inForce": operators,
    }
    changed = client.patch(SETTINGS, json={"queryTimeoutSeconds": 0.5})
    assert changed.status_code == 200
    in_force = operators | {"queryTimeoutSeconds": 0.5}
    own = {
        "name": "Acme",
        "personTrait": None,
        "sharedContents": "figures",
        "sharedProperties": [],
        "queryTimeoutSeconds": 0.5,
        "queryMemoryBytes": None,
        "inForce": in_force,
    }
    assert changed.json() == own == client.get(SETTINGS).json()
    assert client.patch(SETTINGS, json={}).json() == own
    back = client.patch(
        SETTINGS, json={"queryTimeoutSeconds": None, "queryMemoryBytes": 128 * MB}
    ).json()
    in_force = operators | {"queryMemoryBytes": 128 * MB}
    assert back == {
        "name": "Acme",
        "personTrait": None,
        "sharedContents": "figures",
        "sharedProperties": [],
        "queryTimeoutSeconds": None,
        "queryMemoryBytes": 128 * MB,
        "inForce": in_force,
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"queryTimeoutSeconds": 20.5, "queryMemoryBytes": 256 * MB + 1}, "less_than_equal"),
        ({"queryTimeoutSeconds": 0, "queryMemoryBytes": 1}, "greater_than_equal"),
        ({"queryTimeoutSeconds": "5", "queryMemoryBytes": 1.5}, "wrong_type"),
        ({"queryTimeout": 5, "plan": "free"}, "unknown_field"),
    ],
)
def test_a_limit_beyond_the_operators_or_none_at_all_is_refused(client, body, code):
    refused = client.patch(SETTINGS, json=body)
    assert faults(refused) == dict.fromkeys(body, code)


def test_a_funnel_query_over_the_time_limit_is_refused_with_the_limit(client, funnel, warehouse):
    client.patch(SETTINGS, json={"queryTimeoutSeconds": 0.5})
    with warehouse.running_before_reports(ENDLESS):
        answer = client.get(f"/api/funnels/{funnel}/results")
    assert problem(answer) == (503, "query_timeout")
    assert "0.5 seconds, the limit queryTimeoutSeconds" in answer.json()["detail"]
    client.patch(SETTINGS, json={"queryTimeoutSeconds": None})
    assert client.get(f"/api/funnels/{funnel}/results").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/visitors", "/api/events/recent", "/api/schema/events", "/api/schema/properties",
        "/api/schema/values?property=plan",
        "/visitors", "/live",
    ],
)  # fmt: skip
def test_every_query_of_events_has_the_limit(workspace, warehouse, path):
    workspace.client.patch(SETTINGS, json={"queryTimeoutSeconds": 0.5})
    with warehouse.running_before_reports(ENDLESS):
        answer = workspace.browser.get(path)
    assert answer.status_code == 503
    assert "queryTimeoutSeconds" in answer.text


def test_a_funnel_query_over_the_memory_limit_is_refused_with_the_limit(client, funnel, warehouse):
    client.patch(SETTINGS, json={"queryMemoryBytes": 100 * MB})
    with warehouse.running_before_reports(MUCH_MEMORY):
        answer = client.get(f"/api/funnels/{funnel}/results")
    assert problem(answer) == (503, "query_too_large")
    assert "104,857,600 bytes of memory, the limit queryMemoryBytes" in answer.json()["detail"]


def test_limits_are_of_one_workspace(client, other_workspace):
    client.patch(SETTINGS, json={"queryTimeoutSeconds": 1})
    assert other_workspace.client.get(SETTINGS).json()["queryTimeoutSeconds"] is None


def test_settings_may_be_changed_with_their_own_record(client):
    settings = client.get(SETTINGS).json()
    answer = client.patch(SETTINGS, json=settings | {"name": "Shop"})
    assert (answer.status_code, answer.json()) == (200, settings | {"name": "Shop"})
    limits = settings["inForce"] | {"queryTimeoutSeconds": 1}
    refused = client.patch(SETTINGS, json=settings | {"inForce": limits})
    [fault] = refused.json()["errors"]
    assert (refused.status_code, fault["field"], fault["code"]) == (422, "inForce", "read_only")
