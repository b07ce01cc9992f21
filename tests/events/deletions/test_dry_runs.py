"""Deletions of a person and exports of personal data cover the texts in summaries of dry runs."""

import json

import pytest

from tests.answers import body_of
from tests.events.conftest import upload
from tests.events.deletions.conftest import Delete, Json
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

TABLE = b"""when;who;what;mail
1714557600;ann;opened;ann@shop.example
1714557660;bob;bought;bob@shop.example
1714557700;bob;/people/ann;bob@shop.example
"""
NDJSON = b"""{"type": "event", "nam": "e", "userId": "ann"}
{"type": "event", "name": "kept", "userId": "bob", "timestamp": "2024-05-01T10:00:00Z"}
"""


def checked(workspace: Tenant, body: bytes, media: str, **query: str) -> str:
    """Send a file for its dry run, and return the path of its import."""
    answer = upload(workspace, body, media, dryRun="true", **query)
    path = f"/api/imports/{body_of(answer, 201)['id']}"
    eventually(lambda: workspace.client.get(path).json()["state"] == "checked")
    return path


def mapped(workspace: Tenant) -> str:
    columns = [
        {"column": "when", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
        {"column": "mail", "use": "property"},
    ]
    return checked(workspace, TABLE, "text/csv", mapping=json.dumps({"columns": columns}))


def summary(workspace: Tenant, path: str) -> Json:
    return workspace.client.get(f"{path}/summary").json()


def names(shown: Json, field: str = "eventNames") -> list[str]:
    return sorted(each["name"] for each in shown[field])


def test_a_deletion_removes_what_summaries_say_about_the_person(
    workspace: Tenant, delete: Delete
) -> None:
    table, lines = mapped(workspace), checked(workspace, NDJSON, "application/x-ndjson")
    started = mapped(workspace)
    assert workspace.client.post(f"{started}/start").status_code == 200
    eventually(lambda: workspace.client.get(started).json()["state"] == "done")
    assert "/people/ann" in names(summary(workspace, started))
    deletion = delete(userId="ann")
    assert {f"/api/imports/{each}" for each in deletion["openImports"]} == {table, lines}
    # Two rows of the sample and an event name; an excerpt; the name that the started import has.
    assert deletion["removed"]["database"]["dryRunTexts"] == 5
    shown = summary(workspace, table)
    assert [row[1] for row in shown["sample"]["rows"]] == ["bob"]
    assert names(shown) == ["bought", "opened"]
    assert names(shown, "steps") == ["bought"]  # half of the others did without "opened"
    [reason] = summary(workspace, lines)["reasons"]
    assert (reason["lines"], reason["excerpt"]) == (1, None)
    assert names(summary(workspace, started)) == ["bought", "opened"]


def test_an_export_of_personal_data_has_what_summaries_say_about_the_person(
    workspace: Tenant,
) -> None:
    body = {"websiteId": workspace.website_id, "visitorId": "phone", "userId": "ann"}
    assert workspace.client.post("/api/identify", json=body).status_code == 200
    path = mapped(workspace)
    query = {"websiteId": workspace.website_id, "userId": "ann"}
    exported = workspace.client.get("/api/personal-data", params=query)
    texts = [
        line["data"]
        for line in map(json.loads, exported.text.splitlines())
        if line["type"] == "dryRunText"
    ]
    assert {text["importId"] for text in texts} == {path.rpartition("/")[2]}
    assert [text["text"] for text in texts] == [
        "1714557600, ann, opened, ann@shop.example",
        "1714557700, bob, /people/ann, bob@shop.example",
        "/people/ann",
    ]
