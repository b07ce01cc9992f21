"""The page of exports names each destination, and those that may have deleted people."""

from tests.tenant import Tenant


def begin(tenant: Tenant, destination: str) -> str:
    answer = tenant.client.post("/api/exports", json={"destination": destination})
    assert answer.status_code == 201, answer.text
    export_id: str = answer.json()["id"]
    return export_id


def page(tenant: Tenant) -> str:
    answer = tenant.browser.get("/exports")
    assert answer.status_code == 200, answer.text
    return answer.text


def test_without_exports_the_page_says_how_to_make_one(workspace: Tenant) -> None:
    text = page(workspace)
    assert "No exports yet" in text
    assert "penstock export s3://bucket/acme --every 24h" in text


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
    person = {"websiteId": workspace.website_id, "visitorId": "v"}
    workspace.client.post("/api/deletions", json=person).raise_for_status()
    assert page(workspace).count("people you have deleted") == 2


def test_exports_of_another_workspace_are_not_shown(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    begin(other_workspace, "host:/srv/other")
    assert "host:/srv/other" not in page(workspace)
