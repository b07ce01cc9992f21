"""Folders: where funnels are in the list, without effect on their definition."""

from typing import Any

import httpx
import pytest

from tests.cases import cases
from tests.funnels.scenario import column
from tests.tenant import Tenant

Json = dict[str, Any]

STEPS = [{"type": "Event", "value": "a"}, {"type": "Event", "value": "b"}]


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def save(client: httpx.Client, name: str, **more: Any) -> Json:
    answer = client.post("/api/funnels", json={"name": name, "steps": STEPS, **more})
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()
    return record


def read(client: httpx.Client, funnel: Json) -> Json:
    record: Json = client.get(f"/api/funnels/{funnel['id']}").json()
    return record


def move(client: httpx.Client, funnel: Json, folder: str | None) -> httpx.Response:
    return client.patch(f"/api/funnels/{funnel['id']}", json={"folder": folder})


def listed(client: httpx.Client, **query: Any) -> list[str]:
    return column(client.get("/api/funnels", params=query).json()["data"], "name")


@pytest.mark.every_database
def test_a_list_has_the_funnels_of_one_folder_or_of_none(
    client: httpx.Client, other_workspace: Tenant
) -> None:
    save(other_workspace.client, "foreign", folder="Shop")
    for name, folder in (("a", "Shop"), ("b", "shop"), ("c", None), ("d", "Shop")):
        save(client, name, folder=folder)
    assert listed(client, sort="name") == ["a", "b", "c", "d"]
    assert listed(client, sort="name", folder="Shop") == ["a", "d"]
    assert listed(client, folder="shop") == ["b"]
    assert listed(client, folder="") == ["c"]
    assert listed(client, folder="Shop", search="D") == ["d"]
    assert listed(client, folder="none of them") == []
    assert client.get("/api/funnels", params={"folder": "a\0"}).status_code == 400


@pytest.mark.every_database
def test_a_move_changes_the_folder_and_nothing_else(client: httpx.Client) -> None:
    funnel = save(client, "a")
    assert "folder" not in funnel
    moved = move(client, funnel, "Shop")
    assert moved.status_code == 200, moved.text
    assert moved.json() == funnel | {"folder": "Shop", "updatedAt": moved.json()["updatedAt"]}
    assert read(client, funnel) == moved.json()
    assert move(client, funnel, "Shop").json() == moved.json()
    assert move(client, funnel, None).json()["revision"] == 1
    assert "folder" not in read(client, funnel)
    assert client.get(f"/api/funnels/{funnel['id']}/revisions").json()["total"] == 1


def test_a_replacement_without_folder_leaves_the_funnel_where_it_is(client: httpx.Client) -> None:
    funnel = save(client, "a", folder="Shop")
    path, body = f"/api/funnels/{funnel['id']}", {"name": "b", "steps": STEPS}
    assert client.put(path, json=body).json()["folder"] == "Shop"
    assert client.put(path, json=body | {"folder": "App"}).json()["folder"] == "App"
    assert client.put(path, json=read(client, funnel)).json()["folder"] == "App"
    assert "folder" not in client.put(path, json=body | {"folder": None}).json()
    assert read(client, funnel)["revision"] == 1


@cases(
    ("body", "field", "code"),
    [
        ({"folder": "f" * 201}, "folder", "too_long"),
        ({"folder": " "}, "folder", "too_short"),
        ({"folder": "a\nb"}, "folder", "control_character"),
        ({"folder": 1}, "folder", "wrong_type"),
        ({}, "folder", "required"),
        ({"folder": "a", "name": "b"}, "name", "unknown_field"),
    ],
)
def test_a_bad_move_is_refused_with_its_field(
    client: httpx.Client, body: Json, field: str, code: str
) -> None:
    funnel = save(client, "a")
    answer = client.patch(f"/api/funnels/{funnel['id']}", json=body)
    assert answer.status_code == 422, answer.text
    assert [(fault["field"], fault["code"]) for fault in answer.json()["errors"]] == [(field, code)]
    if code not in ("required", "unknown_field"):
        created = client.post("/api/funnels", json={"name": "b", "steps": STEPS, **body})
        assert created.json()["errors"][0]["field"] == "folder"


def test_the_page_groups_funnels_by_folder_and_those_of_none_come_last(workspace: Tenant) -> None:
    for name, folder in (("a", None), ("b", "Shop"), ("c", "App"), ("d", "Shop")):
        save(workspace.client, name, folder=folder)
    page = workspace.browser.get("/funnels").text
    offsets = [page.index(f'data-folder="{folder}"') for folder in ("App", "Shop", "")]
    assert offsets == sorted(offsets)
    only = workspace.browser.get("/funnels?folder=Shop").text
    assert only.count('hx-get="/funnels/fun_') == 2
    assert "This folder is empty" in workspace.browser.get("/funnels?folder=x").text


def test_a_page_without_folders_shows_none(workspace: Tenant) -> None:
    save(workspace.client, "a")
    page = workspace.browser.get("/funnels").text
    assert "data-folder" not in page
    assert "No folder" not in page


def test_the_page_of_no_folder_shows_only_its_funnels(workspace: Tenant) -> None:
    save(workspace.client, "a", folder="Shop")
    outside = save(workspace.client, "b")
    page = workspace.browser.get("/funnels?folder=").text
    assert page.count('hx-get="/funnels/fun_') == 1
    assert f'hx-get="/funnels/{outside["id"]}/row' in page
