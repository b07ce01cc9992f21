"""Each workspace has one budget for files that wait on the disk."""

from pathlib import Path

import pytest

from penstock.events.imports import worker
from penstock.events.imports.dry_runs import worker as dry_run_worker
from tests.answers import problem
from tests.events.conftest import finished, ndjson, upload
from tests.events.imports.conftest import line
from tests.events.imports.test_dry_run import checked, event, key, send  # noqa: F401 - fixtures
from tests.waiting import eventually

LONG = ndjson([event("a", "v", 1, text="x" * 500)])
"""A file of about 600 bytes."""


@pytest.fixture
def post(workspace):
    def send_file(body=LONG, tenant=workspace, is_dry_run=True):
        return upload(tenant, body, dryRun=str(is_dry_run).lower())

    return send_file


def use(client):
    document = client.get("/api/settings/disk").json()
    files = {each["kind"]: (each["files"], each["bytes"]) for each in document["files"]}
    return document["usedBytes"], files


def assert_full(answer):
    assert problem(answer) == (507, "workspace_disk_full")
    return answer.json()["detail"]


@pytest.mark.parametrize("limits", [{"workspace_files_bytes": 1_500}])
def test_files_before_their_start_use_the_budget_until_they_are_cancelled(
    client, post, settings, workspace
):
    jobs = [post().json() for _ in range(2)]
    assert use(client) == (2 * len(LONG), use(client)[1])
    assert use(client)[1]["dry_runs"] == (2, 2 * len(LONG))
    detail = assert_full(post())
    assert f"imports before their start {2 * len(LONG):,}" in detail
    assert "Start or cancel an import" in detail
    assert_full(post(is_dry_run=False))
    assert len(list((settings.data / "staged").iterdir())) == 2
    page = workspace.browser.get("/imports").text
    assert "Files of imports that nobody has started" in page
    assert client.post(f"/api/imports/{jobs[0]['id']}/cancel").json()["state"] == "cancelled"
    assert use(client)[0] == len(LONG)
    assert post().status_code == 201


@pytest.mark.every_database
@pytest.mark.parametrize("limits", [{"workspace_files_bytes": 1_024}])
def test_an_upload_stops_at_the_budget_and_leaves_nothing(client, post, settings, other_workspace):
    assert_full(post(LONG * 5_000))
    assert list((settings.data / "staged").iterdir()) == []
    assert use(client)[0] == 0
    assert post(tenant=other_workspace).status_code == 201


@pytest.mark.parametrize("limits", [{"workspace_files_bytes": 2_600}])
def test_a_key_that_only_sends_uses_half_of_the_budget(post, key):  # noqa: F811
    sender = key("ingest")
    for _ in range(2):
        assert post(tenant=sender).status_code == 201
    assert "The unfinished imports of this key" in assert_full(post(tenant=sender))
    assert post().status_code == 201


def test_an_import_leaves_the_budget_when_it_is_done(client, post):
    job = post(ndjson([line(1)]), is_dry_run=False).json()
    assert finished(client, job["id"])["state"] == "done"
    assert use(client)[0] == 0


@pytest.mark.usefixtures("warehouse")
def test_the_use_counts_mappings_and_results_of_jobs(client, workspace):
    columns = [
        {"column": "when", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
    ]
    saved = {"name": "shop", "mapping": {"columns": columns}}
    assert client.post("/api/import-mappings", json=saved).status_code == 201
    query = {"websiteId": workspace.website_id}
    job = client.get("/api/visitors", params=query, headers={"Prefer": "respond-async"}).json()
    eventually(lambda: client.get(f"/api/jobs/{job['id']}").json()["state"] == "done")
    _, files = use(client)
    assert files["import_mappings"][0] == 1
    assert files["import_mappings"][1] > 100
    assert files["job_results"][0] == 1
    assert files["job_results"][1] > 10


def test_the_use_of_another_workspace_is_not_counted(client, post, other_workspace):
    assert post(tenant=other_workspace).status_code == 201
    assert use(client)[0] == 0


# -- The file goes before the record ---------------------------------------------------------------


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_a_cancelled_import_that_is_being_read_frees_its_file(
    client, post, settings, monkeypatch, is_dry_run
):
    """Its worker closes the file even if it can store nothing."""
    monkeypatch.setattr(dry_run_worker, "_SLICE_S", 0.0)
    monkeypatch.setattr(worker, "_SLICE_S", 0.0)
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 1)
    body = ndjson(line(number) for number in range(3_000))
    job = post(body, is_dry_run=is_dry_run).json()
    path = f"/api/imports/{job['id']}"
    eventually(lambda: client.get(path).json()["linesRead"] > 2)
    assert client.post(f"{path}/cancel").json()["state"] == "cancelled"
    folder = settings.data / ("staged" if is_dry_run else "imports")
    assert list(folder.iterdir()) == []
    eventually(lambda: not open_files_below(folder))
    assert client.get(path).json()["state"] == "cancelled"


def open_files_below(folder: Path) -> list[str]:
    """Return the open files of this process that are or were in a folder."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return [link for link in links if link.startswith(f"{folder}/")]
