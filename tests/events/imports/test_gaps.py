"""Imports that stored nothing, gaps that an owner dismisses, and texts of rejected lines."""

import pytest
from sqlalchemy import select, update

from penstock.app import Services
from penstock.metadb.tables import import_rejects
from tests.answers import body_of, problem
from tests.events.conftest import finished, ndjson, upload
from tests.events.imports.conftest import rejects
from tests.tenant import Tenant, join


def line(number, **more):
    at_ms = 1_588_327_200_000 + number * 1000
    return {"type": "event", "name": "e", "timestamp": at_ms, "visitorId": "v"} | more


def spans(services: Services, workspace: Tenant):
    return services.imports.gaps(workspace.id, [workspace.website_id])


# Nothing was imported


def test_an_import_of_rejected_lines_alone_fails_with_the_reason(run_import, workspace, services):
    job = run_import([line(1, name=""), line(2, visitorId=None)])
    assert (job["state"], job["rejected"]) == ("failed", 2)
    assert job["error"] == "All 2 lines were rejected, so nothing was imported."
    assert spans(services, workspace) == [], "it leaves no gap in the coverage"


def test_an_empty_file_fails_with_the_reason(run_import, workspace, services):
    job = run_import(b"\n\n")
    assert (job["state"], job["error"]) == ("failed", "The file has only empty lines.")
    assert spans(services, workspace) == []


def test_a_repeated_file_is_done(run_import):
    run_import([line(1)])
    again = run_import([line(1)])
    assert (again["state"], again["duplicates"], again["error"]) == ("done", 1, None)


@pytest.mark.usefixtures("warehouse")
def test_a_coverage_of_funnels_is_complete_after_an_import_that_stored_nothing(
    run_import, workspace
):
    run_import([line(1), line(2)])
    run_import([line(1, name=""), line(2, visitorId=None)])
    step = {"type": "Event", "value": "e"}
    funnel = {"name": "f", "steps": [step, step], "conversionWindowSeconds": 3600}
    answer = workspace.client.post("/api/funnels/preview", json=funnel)
    assert body_of(answer)["coverage"]["gaps"] == [], "a whole import is not a gap"
    assert answer.json()["coverage"]["complete"]


# Dismissed gaps


@pytest.fixture
def gap(run_import):
    """An import that rejected a line."""
    return run_import([line(1), line(2, name="")])


@pytest.mark.every_database
def test_an_owner_dismisses_a_gap(workspace, services, gap, clock):
    assert gap["gapDismissedAt"] is None
    [span] = spans(services, workspace)
    assert span.dismissed_at_ms is None
    dismissed = body_of(workspace.browser.post(f"/api/imports/{gap['id']}/dismiss-gap"))
    assert dismissed == {
        **gap,
        "gapDismissedAt": dismissed["gapDismissedAt"],
        "updatedAt": dismissed["updatedAt"],
    }
    assert dismissed["gapDismissedAt"] is not None
    assert workspace.client.get(f"/api/imports/{gap['id']}").json() == dismissed
    [span] = spans(services, workspace)
    assert span.dismissed_at_ms is not None
    assert span.note is not None, "coverage keeps the note"
    clock.advance(seconds=60)
    again = workspace.browser.post(f"/api/imports/{gap['id']}/dismiss-gap")
    assert again.json() == dismissed, "a repeat changes nothing"


def test_only_an_owner_dismisses_a_gap(workspace, other_workspace, server, gap):
    path = f"/api/imports/{gap['id']}/dismiss-gap"
    refusals = {
        "member": (join(workspace).post(path), 403, "owner_required"),
        "key": (workspace.client.post(path), 403, "session_required"),
        "stranger": (other_workspace.browser.post(path), 404, "not_found"),
        "nobody": (server.post(path), 401, "not_signed_in"),
    }
    for who, (answer, status, code) in refusals.items():
        assert problem(answer) == (status, code), who
    assert workspace.client.get(f"/api/imports/{gap['id']}").json()["gapDismissedAt"] is None


def test_an_import_without_a_gap_has_nothing_to_dismiss(workspace, run_import):
    whole = run_import([line(1)])
    answer = workspace.browser.post(f"/api/imports/{whole['id']}/dismiss-gap")
    assert problem(answer) == (409, "no_gap")


@pytest.mark.usefixtures("warehouse")
def test_the_gap_of_an_open_import_cannot_be_dismissed(workspace):
    job = upload(workspace, [line(number) for number in range(5000)]).json()
    answer = workspace.browser.post(f"/api/imports/{job['id']}/dismiss-gap")
    assert problem(answer) == (409, "import_not_finished")
    finished(workspace.client, job["id"])


# Texts of rejected lines


def test_rejected_lines_have_their_text_without_secrets(run_import, workspace):
    body = ndjson([line(1), line(2, name="", properties={"password": "hunter2", "plan": "pro"})])
    body += b'{"type": "event", "token": "abc def", "ip": "203.0.113.9", "name": \n'
    body += b"nonsense " * 200 + b"\n"
    invalid, broken, long = rejects(workspace.client, run_import(body))
    assert '"plan":"pro"' in invalid["excerpt"]
    assert '"password":"***"' in invalid["excerpt"]
    assert broken["excerpt"].startswith('{"type": "event", "token": "***"')
    assert "203.0.113.9" not in broken["excerpt"]
    assert long["excerpt"].startswith("nonsense nonsense")
    assert len(long["excerpt"]) <= 200


def test_a_line_over_the_limit_has_no_text(run_import, workspace):
    job = run_import([line(1), line(2, properties={"a": "x" * 70_000})])
    assert [reject["excerpt"] for reject in rejects(workspace.client, job)] == [None]


def test_the_text_is_stored_in_its_own_column(run_import, workspace, services):
    job = run_import([line(1), line(2, name="")])
    [reject] = rejects(workspace.client, job)
    with services.database.read() as db:
        errors, line_text = db.execute(
            select(import_rejects.c.errors, import_rejects.c.line_text)
        ).one()
    assert (errors, line_text) == (reject["errors"], reject["excerpt"])


def test_a_text_that_an_earlier_version_stored_with_the_errors_is_shown_and_deleted(
    run_import, workspace, services
):
    job = run_import([line(1), line(2, visitorId="ada-1", name=""), line(3, name="")])
    before = rejects(workspace.client, job)
    with services.database.write() as db:
        for reject in before:
            old = {"faults": reject["errors"], "excerpt": reject["excerpt"]}
            db.execute(
                update(import_rejects)
                .where(import_rejects.c.line == reject["line"])
                .values(errors=old, line_text=None)
            )
    assert rejects(workspace.client, job) == before
    request = {"websiteId": workspace.website_id, "visitorId": "ada-1"}
    assert workspace.client.post("/api/deletions", json=request).status_code == 201
    assert [reject["excerpt"] for reject in rejects(workspace.client, job)] == [
        None,
        before[1]["excerpt"],
    ]


def test_a_deletion_removes_the_texts_that_name_the_visitor(run_import, workspace):
    job = run_import(
        [
            line(1, visitorId="ada-1", userId="ada"),
            line(2, visitorId="ada-1", name=""),
            line(3, userId="ada", visitorId=None, name=""),
            line(4, visitorId="grace-1", name=""),
        ]
    )
    before = rejects(workspace.client, job)
    request = {"websiteId": workspace.website_id, "visitorId": "ada-1"}
    assert workspace.client.post("/api/deletions", json=request).status_code == 201
    after = rejects(workspace.client, job)
    assert [reject["excerpt"] for reject in after] == [None, None, before[2]["excerpt"]]
    assert [reject["errors"] for reject in after] == [reject["errors"] for reject in before]


# Warnings


def test_an_import_with_numbers_as_ids_has_a_warning(run_import):
    job = run_import([line(1), line(2, userId=7)])
    assert (job["accepted"], job["rejected"]) == (2, 0)
    assert [warning["code"] for warning in job["warnings"]] == ["id_was_a_number"]
    assert run_import([line(3)])["warnings"] == []


def test_an_import_with_a_country_that_is_no_code_has_a_warning(run_import, workspace):
    job = run_import([line(1, country="Germany"), line(2, country="DE")])
    assert job["accepted"] == 2
    assert [warning["code"] for warning in job["warnings"]] == ["country_not_iso"]
    page = workspace.browser.get(f"/imports/{job['id']}")
    assert "Some lines have a country that is not a two-letter code" in page.text


@pytest.mark.usefixtures("warehouse")
def test_an_import_has_each_warning_once_across_batches(run_import):
    lines = [line(number, visitorId=number) for number in range(600)]
    job = run_import([*lines, line(601, country="Germany")])
    assert [warning["code"] for warning in job["warnings"]] == [
        "country_not_iso",
        "id_was_a_number",
    ]
