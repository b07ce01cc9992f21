"""The page of exports names each destination, and those that may have deleted people."""

import pytest

from penstock.base.paging import MAX_PAGE_SIZE
from tests.records import create
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.web.reading import html_of

AT_MS = 1_777_629_600_000


def begin(tenant: Tenant, destination: str) -> str:
    export_id: str = create(tenant.client, "/api/exports", {"destination": destination})["id"]
    return export_id


def page(tenant: Tenant) -> str:
    return html_of(tenant, "/exports")


def delete_visitor(tenant: Tenant) -> None:
    person = {"websiteId": tenant.website_id, "visitorId": "v"}
    tenant.client.post("/api/deletions", json=person).raise_for_status()


def test_without_exports_the_page_says_how_to_make_one(workspace: Tenant) -> None:
    text = page(workspace)
    assert "No exports yet" in text
    assert "penstock export s3://bucket/acme --every 24h" in text


@pytest.mark.usefixtures("warehouse")
def test_each_destination_has_its_last_export(workspace: Tenant) -> None:
    event = {"websiteId": workspace.website_id, "event": "a", "visitorId": "v"}
    event["timestamp"] = "2026-05-01T10:00:00Z"
    assert workspace.client.post("/api/v1/events", json=event).status_code == 202
    done = begin(workspace, "s3://bucket/acme")
    query = {"websiteId": workspace.website_id, "exportId": done}
    assert workspace.client.get("/api/exports/days", params=query).json()["data"]
    workspace.client.post(f"/api/exports/{done}/finish").raise_for_status()
    begin(workspace, "host:/srv/acme")
    text = page(workspace)
    assert "s3://bucket/acme" in text
    assert "1 May 2026" in text
    assert text.count("Not finished") == 1
    assert "people you have deleted" not in text
    delete_visitor(workspace)
    assert page(workspace).count("people you have deleted") == 2


@pytest.mark.usefixtures("warehouse")
def test_one_name_of_two_destinations_is_marked_only_where_people_can_remain(
    workspace: Tenant,
) -> None:
    """A folder that was emptied and exported again has its name twice."""
    path = "/api/exports"
    old = {"destination": "host:/srv/acme", "destinationId": "old"}
    workspace.client.post(path, json=old).raise_for_status()
    delete_visitor(workspace)
    eventually(
        lambda: all(
            each["state"] == "done"
            for each in workspace.client.get("/api/deletions").json()["data"]
        )
    )
    new = workspace.client.post(path, json={**old, "destinationId": "new"}).json()["id"]
    workspace.client.post(f"{path}/{new}/finish").raise_for_status()
    text = page(workspace)
    assert text.count("<bdi>host:/srv/acme</bdi></strong>") == 2
    assert text.count("people you have deleted") == 1
    assert "Not finished" in text.partition("people you have deleted")[2].partition("</tr>")[0]


@pytest.mark.full("many deletions")
def test_the_deletion_of_a_person_counts_however_many_follow(workspace: Tenant) -> None:
    begin(workspace, "host:/srv/acme")
    delete_visitor(workspace)
    path = "/api/deletions"
    for number in range(MAX_PAGE_SIZE):
        span = {"websiteId": workspace.website_id, "from": AT_MS + number, "to": AT_MS + number + 1}
        workspace.client.post(path, json=span).raise_for_status()
    newest = workspace.client.get(path, params={"pageSize": MAX_PAGE_SIZE}).json()["data"]
    assert {each["target"] for each in newest} == {"span"}
    assert "people you have deleted" in page(workspace)


def test_exports_of_another_workspace_are_not_shown(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    begin(other_workspace, "host:/srv/other")
    begin(workspace, "host:/srv/acme")
    delete_visitor(other_workspace)
    assert "people you have deleted" not in page(workspace)
    assert "host:/srv/other" not in page(workspace)
