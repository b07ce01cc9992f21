"""Saved mappings over HTTP: the record, and files that use one."""

import json

import pytest

from tests.answers import body_of, faults
from tests.events.conftest import finished, upload
from tests.events.imports.conftest import stored
from tests.events.imports.test_dry_run import checked

COLUMNS = [
    {"column": "at", "use": "time", "unit": "seconds"},
    {"column": "who", "use": "user"},
    {"column": "what", "use": "event"},
    {"column": "n", "use": "property", "name": "orderNumber"},
]
MAPPING = {"columns": COLUMNS}
ORDERS = {"name": "Orders", "mapping": MAPPING}
TABLE = b"n,at,who,what\n5,1714557600,17,paid\n"


def saved(client, **changes):
    return body_of(client.post("/api/import-mappings", json=ORDERS | changes), 201)


def uses(mapping):
    return [(each["column"], each["use"], each["name"]) for each in mapping["columns"]]


def tried(workspace, content=TABLE, **query):
    """Return the summary of a dry run."""
    job = upload(workspace, content, "text/csv", dryRun="true", **query).json()
    checked(workspace.client, job)
    return workspace.client.get(f"/api/imports/{job['id']}/summary").json()


def test_a_mapping_is_complete(client):
    answer = client.post(
        "/api/import-mappings", json={"name": "x", "mapping": {"columns": COLUMNS[1:]}}
    )
    assert [each["code"] for each in body_of(answer, 422)["errors"]] == ["time_required"]


@pytest.mark.usefixtures("warehouse")
def test_an_import_uses_a_saved_mapping_and_keeps_it(workspace, services):
    mapping = saved(workspace.client)
    answer = upload(workspace, TABLE, "text/csv", mappingId=mapping["id"])
    assert answer.status_code == 201, answer.text
    assert finished(workspace.client, answer.json()["id"])["accepted"] == 1
    assert workspace.client.delete(f"/api/import-mappings/{mapping['id']}").status_code == 204
    still = workspace.client.get(f"/api/imports/{answer.json()['id']}").json()["mapping"]
    assert uses(still) == uses(mapping["mapping"])
    assert stored(services, workspace.website_id, "properties") == ['{"orderNumber":"5"}']


def test_an_import_names_one_mapping_of_its_workspace(workspace):
    missing = upload(workspace, TABLE, "text/csv", mappingId="map_none")
    assert faults(missing) == {"mappingId": "mapping_not_found"}
    mapping = saved(workspace.client)
    query = {"mappingId": mapping["id"]}
    both = upload(workspace, TABLE, "text/csv", mapping=json.dumps(MAPPING), **query)
    assert (both.status_code, both.json()["errors"][0]["code"]) == (400, "not_both")
    lines = upload(workspace, b"{}", "application/x-ndjson", format="mixpanel", **query)
    assert (lines.status_code, lines.json()["errors"][0]["code"]) == (400, "not_for_format")


def test_a_dry_run_proposes_the_saved_mapping_of_the_same_columns(workspace):
    guessed = tried(workspace)
    assert guessed["savedMapping"] is None
    mapping = saved(workspace.client)
    summary = tried(workspace)
    assert summary["savedMapping"] == {"id": mapping["id"], "name": "Orders"}
    assert uses(summary["mapping"]) == uses(mapping["mapping"]) != uses(guessed["mapping"])
    assert (summary["events"], summary["error"]) == (1, None)
    other = tried(workspace, b"n,at,who,what,more\n5,1714557600,17,paid,x\n")
    assert other["savedMapping"] is None


def test_another_workspace_is_proposed_nothing(workspace, other_workspace):
    saved(workspace.client)
    assert tried(other_workspace)["savedMapping"] is None
