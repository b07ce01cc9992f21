"""Goals name matches, are unique in their workspace, and stay while funnels use them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from penstock.app import Services
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import Match, MatchType
from tests.funnels.answers import code, faults
from tests.funnels.scenario import Json, rows_of, step, where
from tests.tenant import Tenant

PAID: Json = {"name": "Paid", "match": {"type": "Transaction", "value": "purchase"}}
GOAL = {"type": "Goal", "value": "Paid"}


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def save(client: httpx.Client, path: str, body: Json) -> Json:
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()
    return record


def save_funnel(client: httpx.Client, name: str) -> Json:
    return save(client, "/api/funnels", {"name": name, "steps": [step("a"), GOAL]})


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "nothing": ({}, ["name required", "match required"]),
    "blank name": ({**PAID, "name": " "}, ["name too_short"]),
    "unknown field": ({**PAID, "type": "Event"}, ["type unknown_field"]),
    "match is a text": ({**PAID, "match": "purchase"}, ["match wrong_type"]),
    "a goal of a goal": ({"name": "Deal", "match": GOAL}, ["match.type goal_of_goal"]),
    "a match with or": ({**PAID, "match": {**PAID["match"], "or": []}}, ["match.or unknown_field"]),
    "several at once": (
        {
            "name": "",
            "match": {
                "type": "Goal",
                "value": "a\0b",
                "filters": [where("p", "matches_regex", "["), where("$p", "is_set")],
            },
        },
        [
            "name too_short",
            "match.type goal_of_goal",
            "match.value nul_character",
            "match.filters[0].value bad_regex",
            "match.filters[1].property unknown_builtin",
        ],
    ),
}


@pytest.mark.usefixtures("warehouse")
def test_a_broken_rule_is_reported_with_its_field(client: httpx.Client) -> None:
    goal = save(client, "/api/goals", PAID)
    for name, (body, expected) in REFUSED.items():
        assert faults(client.post("/api/goals", json=body)) == expected, name
        if name != "nothing":
            answer = client.patch(f"/api/goals/{goal['id']}", json=body)
            assert faults(answer) == expected, name
    for field in ("name", "match"):
        answer = client.patch(f"/api/goals/{goal['id']}", json={field: None})
        assert faults(answer) == [f"{field} not_null"]
    assert client.get("/api/goals").json()["data"] == [goal]


def test_a_goal_in_use_is_neither_deleted_nor_renamed(client: httpx.Client) -> None:
    goal = save(client, "/api/goals", PAID)
    funnels = [save_funnel(client, name) for name in ("Web", "App")]
    for answer in (
        client.delete(f"/api/goals/{goal['id']}"),
        client.patch(f"/api/goals/{goal['id']}", json={"name": "Bought"}),
    ):
        assert code(answer, 409) == "goal_in_use"
        assert "App, Web" in answer.json()["detail"]
    assert client.get(f"/api/goals/{goal['id']}").json() == goal

    client.delete(f"/api/funnels/{funnels[0]['id']}")
    without = {"name": "App", "steps": rows_of("ab")}
    assert client.put(f"/api/funnels/{funnels[1]['id']}", json=without).json()["revision"] == 2
    assert client.delete(f"/api/goals/{goal['id']}").status_code == 204


@pytest.mark.every_database
def test_a_goal_is_in_use_anywhere_in_a_funnel(client: httpx.Client) -> None:
    goal = save(client, "/api/goals", PAID)
    for steps in (
        [GOAL, step("a")],
        [step("a"), {**step("b"), "or": [GOAL]}],
        [step("a"), step("a"), {**GOAL, "diagnostic": True, "or": [GOAL]}],
    ):
        funnel = save(client, "/api/funnels", {"name": "Web", "steps": steps})
        assert code(client.delete(f"/api/goals/{goal['id']}"), 409) == "goal_in_use"
        client.delete(f"/api/funnels/{funnel['id']}")


def test_a_goal_in_use_may_change_its_match(
    client: httpx.Client, services: Services, workspace: Tenant
) -> None:
    goal = save(client, "/api/goals", PAID)
    funnel = save_funnel(client, "Web")
    changed = client.patch(f"/api/goals/{goal['id']}", json={"match": step("paid")})
    assert changed.status_code == 200

    assert client.get(f"/api/funnels/{funnel['id']}").json() == funnel
    workspace_id = WorkspaceId(workspace.id)
    saved = services.funnels.get(workspace_id, funnel["id"])
    resolved = services.funnels.resolve(workspace_id, saved.definition)
    assert resolved.rows[1].matches == (Match(MatchType.EVENT, "paid"),)


def test_a_goal_and_its_match_are_identical_parts(client: httpx.Client) -> None:
    save(client, "/api/goals", PAID)
    group = {**PAID["match"], "mode": "all_of", "or": [GOAL]}
    body = {"name": "Web", "steps": [step("a"), group]}
    answer = client.post("/api/funnels", json=body)
    assert faults(answer) == ["steps[1].or[0] identical_parts"]
    group["or"] = [{**GOAL, "filters": [where("plan", "is_set")]}]
    save(client, "/api/funnels", body)


def test_a_funnel_cannot_use_a_goal_of_another_workspace(
    client: httpx.Client, other_workspace: Tenant
) -> None:
    save(client, "/api/goals", PAID)
    body = {"name": "Web", "steps": [step("a"), GOAL]}
    answer = other_workspace.client.post("/api/funnels", json=body)
    assert faults(answer) == ["steps[1].value goal_not_found"]


@pytest.mark.every_database
def test_a_funnel_and_the_deletion_of_its_goal_exclude_each_other(client: httpx.Client) -> None:
    body = {"name": "Web", "steps": [step("a"), GOAL]}
    for _ in range(10):
        goal = save(client, "/api/goals", PAID)
        with ThreadPoolExecutor(2) as pool:
            created = pool.submit(client.post, "/api/funnels", json=body)
            deleted = pool.submit(client.delete, f"/api/goals/{goal['id']}")
        outcome = (created.result().status_code, deleted.result().status_code)
        assert outcome in ((201, 409), (422, 204))
        if outcome == (201, 409):
            client.delete(f"/api/funnels/{created.result().json()['id']}")
            assert client.delete(f"/api/goals/{goal['id']}").status_code == 204
