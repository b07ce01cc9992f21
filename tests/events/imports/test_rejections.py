"""Rejected lines end an import only if there are many, of several kinds, and few others."""

import pytest

from penstock.events.imports import store, worker
from penstock.events.imports.batches import advance
from tests.answers import body_of
from tests.events.conftest import finished, ndjson, upload
from tests.events.imports.conftest import counts, line
from tests.waiting import eventually

NO_TYPE, NO_TIME = {"a": 1}, line(timestamp="never")
ONE_KIND, TWO_KINDS = (NO_TYPE,), (NO_TYPE, NO_TIME)
GOOD = [line(number) for number in range(20)]


@pytest.fixture
def send(workspace):
    def send(lines, **query):
        return body_of(upload(workspace, ndjson(lines), **query), 201)

    return send


def dry_run(workspace, job):
    path = f"/api/imports/{job['id']}"
    eventually(lambda: workspace.client.get(path).json()["state"] == "checked")
    return body_of(workspace.client.get(f"{path}/summary"), 200)


LIMITS = {"max_import_rejects": 4, "max_import_rejected_percent": 50}


@pytest.mark.parametrize("limits", [LIMITS])
@pytest.mark.parametrize(
    ("lines", "read"),
    [
        ([*ONE_KIND * 9, *GOOD[:3]], None),
        ([*GOOD[:5], *TWO_KINDS * 2, *GOOD[5:]], None),
        ([*GOOD[:4], *TWO_KINDS * 2, *GOOD[4:]], None),
        ([*GOOD[:3], *TWO_KINDS * 2, *GOOD[3:]], 7),
        ([*ONE_KIND * 6, *GOOD[:3], NO_TIME, *GOOD[3:]], 10),
        ([*GOOD[:9], *TWO_KINDS * 5, *GOOD[9:]], 19),
    ],
    ids=[
        "one kind",
        "fewer",
        "half",
        "more than half",
        "one kind, then another",
        "after many good",
    ],
)
def test_an_import_and_its_dry_run_end_at_the_same_line(workspace, client, send, lines, read):
    job = finished(client, send(lines)["id"])
    summary = dry_run(workspace, staged := send(lines, dryRun="true"))
    page = workspace.browser.get(f"/imports/{staged['id']}").text
    assert summary["linesRead"] == job["linesRead"] == (read or len(lines))
    if read is None:
        assert (job["state"], job["error"], summary["error"]) == ("done", None, None)
        return
    assert job["state"] == "failed"
    rejected = f"{job['rejected']} rejected lines, more than 50 % of those read."
    assert f"The import stopped after {rejected}" in job["error"]
    assert f"The import would stop after {rejected}" in summary["error"]
    assert f"The import would stop after {rejected}" in page


@pytest.mark.parametrize("limits", [{"max_import_rejects": 4, "max_import_rejected_percent": 100}])
def test_the_share_is_a_setting(client, send):
    job = finished(client, send([*TWO_KINDS * 9, *GOOD])["id"])
    assert (job["state"], counts(job)) == ("done", (38, 20, 0, 18))


@pytest.mark.parametrize("limits", [LIMITS])
def test_lines_that_were_rejected_before_the_file_is_opened_again_count(client, send, monkeypatch):
    batches = []

    def fail_once(*args):
        batches.append(args)
        if len(batches) == 2:
            raise OSError("The file is opened again.")
        return advance(*args)

    monkeypatch.setattr(worker, "advance", fail_once)
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 2)
    job = finished(client, send([NO_TYPE, NO_TIME, NO_TYPE, GOOD[0], NO_TIME, *GOOD])["id"])
    assert (job["state"], counts(job)) == ("failed", (5, 1, 0, 4))
    assert len(batches) > 2


def test_only_the_first_rejected_lines_are_listed(workspace, client, send, monkeypatch):
    monkeypatch.setattr(store, "MAX_STORED_REJECTS", 3)
    job = finished(client, send([*GOOD[:2], *ONE_KIND * 5])["id"])
    assert job["rejected"] == 5
    answer = client.get(f"/api/imports/{job['id']}/rejects").json()
    assert ([each["line"] for each in answer["data"]], answer["total"]) == ([3, 4, 5], 3)
    page = workspace.browser.get(f"/imports/{job['id']}").text
    assert "This list has the first" in page
