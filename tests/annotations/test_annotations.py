"""Annotations over HTTP: created once by a deployment script, changed, listed, deleted."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from penstock.annotations import service
from penstock.base.clock import iso
from tests.answers import body_of, faults, problem
from tests.conftest import ShiftedClock
from tests.records import event_steps, new_key, new_website
from tests.tenant import Tenant, join, visitor

ALL = "/api/annotations"
FUNNEL = {"name": "Sign-up", "steps": event_steps("signed_up", "paid")}


def create(client: httpx.Client, status: int = 201, **body: Any) -> dict[str, Any]:
    record: dict[str, Any] = body_of(client.post(ALL, json=body), status)
    return record


def listed(client: httpx.Client, **query: Any) -> list[str]:
    return [each["text"] for each in body_of(client.get(ALL, params=query))["data"]]


@pytest.mark.every_database
def test_an_annotation_is_at_a_time_a_day_or_now(workspace: Tenant, clock: ShiftedClock) -> None:
    client, now = workspace.client, iso(clock())
    at = create(client, text="Release 4.1", at="2026-11-20T15:00:00+01:00")
    day = create(client, text="Black Friday", day="2026-11-27")
    sent = create(workspace.browser, text="Release 4.2")
    assert (at["at"], at["day"]) == ("2026-11-20T14:00:00.000Z", None)
    assert (day["at"], day["day"]) == (None, "2026-11-27")
    assert (sent["at"][:16], sent["day"]) == (now[:16], None)
    assert sent["id"].startswith("ann_")
    assert set(listed(client)) == {"Release 4.1", "Black Friday", "Release 4.2"}


@pytest.mark.every_database
def test_a_deployment_script_may_repeat_its_request(
    workspace: Tenant, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    body = {"id": "release-4.2", "text": "Release 4.2"}
    first = create(workspace.client, **body)
    clock.advance(seconds=60)
    assert create(workspace.client, **body) == first
    assert listed(workspace.client) == ["Release 4.2"]
    refused = workspace.client.post(ALL, json=body | {"day": "2026-11-20"})
    assert problem(refused) == (409, "annotation_differs")
    assert create(other_workspace.client, **body)["id"] == "release-4.2"


@pytest.mark.every_database
def test_of_concurrent_requests_with_one_id_one_adds_an_annotation(workspace: Tenant) -> None:
    body = {"id": "release-4.2", "text": "Release 4.2"}
    with ThreadPoolExecutor(4) as all_four:
        answers = list(all_four.map(lambda _: create(workspace.client, **body), range(4)))
    assert answers == [answers[0]] * 4
    assert listed(workspace.client) == ["Release 4.2"]


@pytest.mark.every_database
def test_a_change_replaces_what_is_sent(workspace: Tenant, clock: ShiftedClock) -> None:
    client, path = workspace.client, f"{ALL}/release"
    funnel_id = body_of(client.post("/api/funnels", json=FUNNEL), 201)["id"]
    first = create(client, id="release", text="Release", day="2026-11-20", funnelId=funnel_id)
    clock.advance(seconds=1)
    text = body_of(client.patch(path, json=first | {"text": "Release 4"}))
    assert text == first | {"text": "Release 4", "updatedAt": text["updatedAt"]}
    assert text["updatedAt"] > first["updatedAt"]
    moved = body_of(client.patch(path, json={"at": "2026-11-21T10:00:00Z", "funnelId": None}))
    assert (moved["at"], moved["day"], moved["funnelId"]) == (
        "2026-11-21T10:00:00.000Z",
        None,
        None,
    )
    assert body_of(client.patch(path, json={"day": "2026-11-22"}))["day"] == "2026-11-22"
    assert faults(client.patch(path, json={"id": "other"})) == {"id": "read_only"}
    assert client.delete(path).status_code == 204
    assert problem(client.delete(path)) == (404, "not_found")
    assert listed(client) == []


def test_it_disappears_with_its_funnel(workspace: Tenant) -> None:
    client = workspace.client
    funnel_id = body_of(client.post("/api/funnels", json=FUNNEL), 201)["id"]
    create(client, text="Release", funnelId=funnel_id)
    assert client.delete(f"/api/funnels/{funnel_id}").status_code == 204
    assert listed(client) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"text": "required"}),
        ({"text": " "}, {"text": "too_short"}),
        ({"text": "a", "day": "2026-11-20", "at": 1_795_000_000_000}, {"day": "not_allowed"}),
        ({"text": "a", "day": "20 November"}, {"day": "not_a_date"}),
        ({"text": "a", "day": "2026-02-30"}, {"day": "not_a_date"}),
        ({"text": "a", "at": "yesterday"}, {"at": "not_a_time"}),
        ({"text": "a", "id": "a/b"}, {"id": "not_an_id"}),
        ({"text": "a", "funnelId": "fun_x"}, {"funnelId": "funnel_not_found"}),
    ],
)
def test_what_is_wrong_is_named(
    workspace: Tenant, body: dict[str, Any], expected: dict[str, str]
) -> None:
    assert faults(workspace.client.post(ALL, json=body)) == expected


def test_a_key_for_one_website_annotates_only_this_website(workspace: Tenant) -> None:
    key = new_key(workspace.browser, scopes=["manage", "read"], websiteId=workspace.website_id)
    transport: Any = workspace.client._transport
    client, site = visitor(transport.client, {"Authorization": f"Bearer {key}"}), "websiteId"
    create(workspace.client, id="all", text="All")
    create(client, id="own", text="Own", websiteId=workspace.website_id)
    other = new_website(workspace.client, "Other")
    for answer in (
        client.post(ALL, json={"text": "All"}),
        client.post(ALL, json={"text": "Other", site: other}),
        client.patch(f"{ALL}/all", json={site: workspace.website_id}),
        client.patch(f"{ALL}/own", json={site: None}),
        client.delete(f"{ALL}/all"),
        client.get(ALL),
    ):
        assert problem(answer) == (403, "website_not_of_key")
    assert listed(client, websiteId=workspace.website_id) == ["Own"]
    assert set(listed(workspace.client)) == {"All", "Own"}


def test_a_viewer_reads_them_and_a_workspace_has_a_maximum(
    workspace: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_MAXIMUM", 1)
    create(workspace.client, id="first", text="First")
    refused = workspace.client.post(ALL, json={"text": "Second"})
    assert problem(refused) == (409, "too_many_annotations")
    assert create(workspace.client, id="first", text="First")["id"] == "first"
    viewer = join(workspace, "viewer")
    assert listed(viewer) == ["First"]
    assert problem(viewer.delete(f"{ALL}/first")) == (403, "viewer_role")
