"""An import that is long or full of errors stops, can be cancelled, and holds no other one up."""

import gzip
import time
from threading import Event

import pytest

from penstock.events.imports import worker
from tests.answers import body_of, problem
from tests.events.conftest import finished, ndjson
from tests.events.conftest import upload as send_file
from tests.events.imports.conftest import counts, line, rejects
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def upload(workspace):
    """Uploads a file and returns its import at once."""

    return lambda body, tenant=workspace: body_of(send_file(tenant, body), 201)


@pytest.fixture
def paused_intake(services, monkeypatch):
    """Imports wait before their first batch is stored, until the event is set."""
    may_continue, submit = Event(), services.intake.submit_from_thread

    def submit_later(events):
        assert may_continue.wait(PATIENCE_S)
        return submit(events)

    monkeypatch.setattr(services.intake, "submit_from_thread", submit_later)
    return may_continue


@pytest.mark.usefixtures("warehouse")
def test_a_file_of_a_million_bad_lines_stops_after_ten_thousand(upload, client, workspace):
    began_s = time.monotonic()
    job = finished(client, upload(gzip.compress(b"{}\n" + b"x\n" * 1_000_000, 1))["id"])
    assert (job["state"], counts(job)) == ("failed", (10_000, 0, 0, 10_000))
    assert "stopped after 10,000 rejected lines" in job["error"]
    assert "import it again" in job["error"]
    assert time.monotonic() - began_s < PATIENCE_S
    assert workspace.browser.get(f"/imports/{job['id']}").status_code == 200


@pytest.mark.usefixtures("warehouse")
def test_an_import_goes_on_while_many_events_wait(upload, client, monkeypatch):
    monkeypatch.setattr(worker, "_MANY_WAITING", 0)
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 10)
    job = finished(client, upload(ndjson([line(number) for number in range(50)]))["id"])
    assert (job["state"], job["accepted"]) == ("done", 50)


@pytest.mark.parametrize("limits", [{"max_import_rejects": 3}])
def test_good_lines_before_the_limit_are_stored_and_the_rest_is_missing(
    upload, client, workspace, services
):
    body = ndjson([line(1)]) + b"{}\n[]\n" + ndjson([line(2)]) + b"{}\n" + ndjson([line(3)])
    job = finished(client, upload(body)["id"])
    assert (job["state"], counts(job)) == ("failed", (5, 2, 0, 3))
    assert [reject["line"] for reject in rejects(client, job)] == [2, 3, 5]
    [span] = services.imports.gaps(workspace.id, [workspace.website_id])
    assert "stopped early" in span.note
    exactly = finished(client, upload(ndjson([line(4)]) + b"{}\n[]\n")["id"])
    assert (exactly["state"], counts(exactly)) == ("done", (3, 1, 0, 2))


def test_a_line_without_an_end_fails_the_import(upload, client):
    body = gzip.compress(ndjson([line(1)]) + b"{" + b" " * 40_000_000, 1)
    job = finished(client, upload(body)["id"])
    assert (job["state"], job["accepted"]) == ("failed", 0)
    assert "Line 2 has more than 16,777,216 bytes" in job["error"]


@pytest.mark.usefixtures("warehouse")
def test_a_long_import_of_one_workspace_holds_up_no_other(
    upload, client, other_workspace, monkeypatch
):
    monkeypatch.setattr(worker, "_SLICE_S", 0.05)
    long = upload(ndjson(line(number) for number in range(20_000)))
    short = upload(ndjson([line(1)]), other_workspace)
    assert finished(other_workspace.client, short["id"])["state"] == "done"
    assert client.get(f"/api/imports/{long['id']}").json()["state"] in ("queued", "running")
    assert client.post(f"/api/imports/{long['id']}/cancel").status_code == 200


@pytest.mark.usefixtures("warehouse")
def test_empty_lines_without_number_hold_up_no_other(upload, client, other_workspace):
    empty = upload(gzip.compress(ndjson([line(1)]) + b"\n" * 30_000_000, 1))
    short = upload(ndjson([line(1)]), other_workspace)
    assert finished(other_workspace.client, short["id"])["state"] == "done"
    client.post(f"/api/imports/{empty['id']}/cancel")
    assert finished(client, empty["id"])["accepted"] == 1


def test_gzip_members_without_number_hold_up_no_other(upload, client, other_workspace, monkeypatch):
    monkeypatch.setattr(worker, "_SLICE_S", 0.05)
    members = gzip.compress(ndjson([line(1)])) + gzip.compress(b"") * 2_000_000
    long = upload(members)
    short = upload(ndjson([line(1)]), other_workspace)
    assert finished(other_workspace.client, short["id"])["state"] == "done"
    assert client.post(f"/api/imports/{long['id']}/cancel").status_code == 200
    assert finished(client, long["id"])["accepted"] == 1


@pytest.mark.every_database
def test_imports_of_one_workspace_are_read_in_their_order(upload, client, paused_intake):
    first = upload(ndjson([line(1)]))
    eventually(lambda: client.get(f"/api/imports/{first['id']}").json()["state"] == "running")
    second = upload(ndjson([line(2)]))
    assert client.get(f"/api/imports/{second['id']}").json()["state"] == "queued"
    paused_intake.set()
    assert finished(client, second["id"])["state"] == "done"
    assert client.get(f"/api/imports/{first['id']}").json()["state"] == "done"


@pytest.mark.usefixtures("warehouse")
def test_a_running_import_can_be_cancelled_and_its_counts_are_right(
    upload, client, paused_intake, services, settings, workspace, monkeypatch
):
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 500)
    job = upload(ndjson(line(number) for number in range(2_000)))
    eventually(lambda: client.get(f"/api/imports/{job['id']}").json()["state"] == "running")
    cancelled = client.post(f"/api/imports/{job['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert cancelled.json()["finishedAt"]
    paused_intake.set()
    # The batch under way is stored and counted; no other begins.
    eventually(lambda: client.get(f"/api/imports/{job['id']}").json()["accepted"] == 500)
    eventually(lambda: list((settings.data / "imports").iterdir()) == [])
    last = client.get(f"/api/imports/{job['id']}").json()
    assert (last["state"], counts(last)) == ("cancelled", (500, 500, 0, 0))
    assert client.post(f"/api/imports/{job['id']}/cancel").json() == last
    [span] = services.imports.gaps(workspace.id, [workspace.website_id])
    assert "was cancelled early" in span.note
    assert "Cancelled" in workspace.browser.get(f"/imports/{job['id']}").text
    again = finished(client, upload(ndjson(line(number) for number in range(2_000)))["id"])
    assert counts(again) == (2_000, 1_500, 500, 0)


def test_a_waiting_import_can_be_cancelled(upload, client, paused_intake, settings):
    first, second = upload(ndjson([line(1)])), upload(ndjson([line(2)]))
    assert client.post(f"/api/imports/{second['id']}/cancel").json()["state"] == "cancelled"
    paused_intake.set()
    assert finished(client, first["id"])["accepted"] == 1
    eventually(lambda: list((settings.data / "imports").iterdir()) == [])
    assert counts(client.get(f"/api/imports/{second['id']}").json()) == (0, 0, 0, 0)


def test_a_finished_import_cannot_be_cancelled_nor_one_of_another_workspace(
    upload, client, other_workspace
):
    job = finished(client, upload(ndjson([line(1)]))["id"])
    assert problem(client.post(f"/api/imports/{job['id']}/cancel")) == (409, "import_finished")
    assert other_workspace.client.post(f"/api/imports/{job['id']}/cancel").status_code == 404


@pytest.mark.usefixtures("warehouse")
def test_a_workspace_has_at_most_twenty_unfinished_imports(
    upload, workspace, other_workspace, paused_intake
):
    jobs = [upload(ndjson([line(number)])) for number in range(20)]
    refused = send_file(workspace, b"")
    assert problem(refused) == (503, "too_many_imports")
    assert int(refused.headers["retry-after"]) > 0
    upload(ndjson([line(1)]), other_workspace)
    assert workspace.client.post(f"/api/imports/{jobs[5]['id']}/cancel").status_code == 200
    upload(ndjson([line(21)]))
    paused_intake.set()


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(("waiting", "limit"), [(0, 5), (1, 2)])
def test_a_commit_has_fewer_lines_while_other_senders_wait(
    upload, client, services, monkeypatch, waiting, limit
):
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 5)
    monkeypatch.setattr(worker, "BATCH_LINES", 2)
    monkeypatch.setattr(services.intake, "waiting", lambda: waiting)
    commits, submit = [], services.intake.submit_from_thread

    def counted(events):
        commits.append(len(events))
        return submit(events)

    monkeypatch.setattr(services.intake, "submit_from_thread", counted)
    finished(client, upload(ndjson(line(number) for number in range(10)))["id"])
    assert commits == [limit] * (10 // limit)
