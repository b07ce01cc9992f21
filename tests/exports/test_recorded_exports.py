"""Exports that clients begin are recorded, and deletions of people name them."""

from typing import Any

import pytest

from penstock.exports.service import MAX_DESTINATIONS
from tests.conftest import ShiftedClock
from tests.exports.test_exports import send
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

Json = dict[str, Any]
FOLDER = "backups.example.com:/backups/acme"


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def begin(workspace: Tenant, destination: str = FOLDER, **more: str) -> Json:
    body = {"destination": destination, **more}
    answer = workspace.client.post("/api/exports", json=body)
    assert answer.status_code == 201, answer.text
    export: Json = answer.json()
    return export


def read_days(workspace: Tenant, export: Json) -> int:
    query = {"websiteId": workspace.website_id, "exportId": export["id"]}
    return workspace.client.get("/api/exports/days", params=query).status_code


def finish(workspace: Tenant, export: Json) -> Json:
    answer = workspace.client.post(f"/api/exports/{export['id']}/finish")
    assert answer.status_code == 200, answer.text
    finished: Json = answer.json()
    return finished


def delete(workspace: Tenant, **target: str) -> Json:
    body = {"websiteId": workspace.website_id, **target}
    answer = workspace.client.post("/api/deletions", json=body)
    assert answer.status_code == 201, answer.text
    return done(workspace, answer.json()["id"])


def done(workspace: Tenant, deletion_id: str) -> Json:
    def read() -> Json | None:
        deletion: Json = workspace.client.get(f"/api/deletions/{deletion_id}").json()
        return deletion if deletion["state"] == "done" else None

    deletion: Json = eventually(read)
    return deletion


def test_an_export_records_who_read_which_days(workspace: Tenant) -> None:
    send(workspace, 1, 0)
    send(workspace, 3, 0)
    export = begin(workspace)
    assert (export["destination"], export["format"], export["firstDay"]) == (
        FOLDER,
        "parquet",
        None,
    )
    assert read_days(workspace, export) == 200
    finished = finish(workspace, export)
    assert (finished["firstDay"], finished["lastDay"]) == ("2026-05-01", "2026-05-03")
    assert finished["finishedAt"] >= finished["startedAt"]
    assert finished["exportedBy"]
    assert finish(workspace, export) == finished
    listed = workspace.client.get("/api/exports").json()
    assert (listed["total"], listed["data"]) == (1, [finished])


def test_a_deletion_names_exports_until_they_are_repeated(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    send(workspace, 2, 0)
    first, interrupted = begin(workspace), begin(workspace, "s3://bucket/acme")
    read_days(workspace, first)
    finish(workspace, first)
    clock.advance(seconds=1)
    deletion = delete(workspace, visitorId="v1")
    assert {export["destination"] for export in deletion["exports"]} == {
        FOLDER,
        interrupted["destination"],
    }
    [export] = [each for each in deletion["exports"] if each["destination"] == FOLDER]
    assert export == {
        "destination": FOLDER,
        "startedAt": first["startedAt"],
        "firstDay": "2026-05-02",
        "lastDay": "2026-05-02",
    }
    page = workspace.browser.get("/deletions").text
    assert FOLDER in page
    assert "events of 2026-05-02 to 2026-05-02" in " ".join(page.split())
    clock.advance(seconds=1)
    again = begin(workspace)
    read_days(workspace, again)
    assert len(done(workspace, deletion["id"])["exports"]) == 2  # The repeat is not finished.
    finish(workspace, again)
    [left] = done(workspace, deletion["id"])["exports"]
    assert (left["destination"], left["firstDay"]) == (interrupted["destination"], None)
    [listed] = workspace.client.get("/api/deletions").json()["data"]
    assert listed["exports"] == [left]


def test_a_deletion_names_no_later_exports_and_none_of_other_workspaces(
    workspace: Tenant, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    begin(other_workspace)
    deletion = delete(workspace, userId="ada")
    clock.advance(seconds=1)
    begin(workspace)
    assert done(workspace, deletion["id"])["exports"] == []


def test_the_deletion_of_a_period_names_no_exports(workspace: Tenant, clock: ShiftedClock) -> None:
    begin(workspace)
    clock.advance(seconds=1)
    span = {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"}
    assert delete(workspace, **span)["exports"] == []


def test_days_of_an_export_of_another_workspace_are_refused(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    assert read_days(workspace, begin(other_workspace)) == 404


@pytest.mark.parametrize(
    ("destination", "code"),
    [
        ("", "too_short"),
        ("x" * 501, "too_long"),
        ("s3://key:secret@bucket/acme", "has_credentials"),
        ("s3://key:sec/ret@bucket/acme", "has_credentials"),
        ("https://secret@host", "has_credentials"),
        ("//key:secret@host/acme", "has_credentials"),
        ("key:secret@host:/acme", "has_credentials"),
        ("s3://[secret/acme", "not_a_url"),
        ("/backups\n/acme", "control_character"),
    ],
)
def test_a_wrong_destination_is_refused_without_repeating_it(
    workspace: Tenant, destination: str, code: str
) -> None:
    answer = workspace.client.post("/api/exports", json={"destination": destination})
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["field"], error["code"]) == (422, "destination", code)
    assert "secret" not in answer.text


def test_keys_that_may_only_read_see_no_exports(workspace: Tenant) -> None:
    key = {"name": "reader", "scopes": ["read"]}
    created = workspace.browser.post("/api/settings/api-keys", json=key).json()["key"]
    headers = {"Authorization": f"Bearer {created}"}
    for method in ("GET", "POST"):
        answer = workspace.browser.request(
            method, "/api/exports", json={"destination": FOLDER}, headers=headers
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


@pytest.mark.parametrize(
    ("destination", "recorded"),
    [
        ("https://host.example:8443/acme?sig=secret#secret", "https://host.example:8443/acme"),
        ("s3://bucket/acme", "s3://bucket/acme"),
        ("backups:/srv/a@b/what?#1", "backups:/srv/a@b/what?#1"),
        ("ada@backups:/srv", "ada@backups:/srv"),
    ],
)
def test_the_query_of_an_address_is_not_recorded(
    workspace: Tenant, destination: str, recorded: str
) -> None:
    assert begin(workspace, destination)["destination"] == recorded


def test_a_folder_that_moves_is_the_same_destination(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    finish(workspace, begin(workspace, "old-host:/srv", destinationId="folder-1"))
    clock.advance(seconds=1)
    deletion = delete(workspace, visitorId="v1")
    clock.advance(seconds=1)
    moved = begin(workspace, "new-host:/srv", destinationId="folder-1")
    [export] = done(workspace, deletion["id"])["exports"]
    assert export["destination"] == "new-host:/srv"
    finish(workspace, moved)
    assert done(workspace, deletion["id"])["exports"] == []


def test_only_the_last_complete_and_one_interrupted_export_are_remembered(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    send(workspace, 1, 0)
    exports = []
    for _ in range(4):
        exports.append(begin(workspace))
        read_days(workspace, exports[-1])
        clock.advance(seconds=1)

    def listed() -> list[str]:
        return [each["id"] for each in workspace.client.get("/api/exports").json()["data"]]

    assert listed() == [exports[3]["id"], exports[0]["id"]]
    # The files of the first one can still contain a person that was deleted after it.
    [export] = delete(workspace, visitorId="v1")["exports"]
    assert (export["firstDay"], export["lastDay"]) == ("2026-05-01", "2026-05-01")
    finish(workspace, exports[3])
    assert listed() == [exports[3]["id"]]


def test_a_destination_is_forgotten_with_all_its_exports(
    workspace: Tenant, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    first = begin(workspace)
    clock.advance(seconds=1)
    begin(workspace)
    bucket = begin(workspace, "s3://bucket/acme")
    deletion = delete(workspace, visitorId="v1")
    path = f"/api/exports/{first['id']}"
    assert other_workspace.client.delete(path).status_code == 404
    assert workspace.client.delete(path).status_code == 204
    assert workspace.client.delete(path).status_code == 404
    [listed] = workspace.client.get("/api/exports").json()["data"]
    [named] = done(workspace, deletion["id"])["exports"]
    assert (listed["id"], named["destination"]) == (bucket["id"], "s3://bucket/acme")
    entries = workspace.browser.get("/api/settings/audit-log").json()["data"]
    assert f"export_forgotten {first['id']} {FOLDER}" in [
        f"{entry['action']} {entry['target']}" for entry in entries
    ]


def test_a_workspace_has_a_maximum_of_destinations_and_long_lists_say_how_many_more(
    workspace: Tenant,
) -> None:
    for number in range(MAX_DESTINATIONS):
        begin(workspace, f"host:/{number}")
    answer = workspace.client.post("/api/exports", json={"destination": "host:/one-more"})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_destinations")
    begin(workspace, "host:/0")
    deletion = delete(workspace, visitorId="v1")
    assert (len(deletion["exports"]), deletion["moreExports"]) == (100, MAX_DESTINATIONS - 100)
    assert f"and {MAX_DESTINATIONS - 10} more" in workspace.browser.get("/deletions").text
