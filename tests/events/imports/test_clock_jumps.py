"""A clock that jumps by hours during an import or a dry run."""

import pytest

from penstock.events.imports import worker
from penstock.events.imports.service import ImportService
from tests.events.conftest import finished, upload
from tests.events.imports.conftest import counts, line
from tests.events.imports.test_dry_run import event, send, summary_of  # noqa: F401 - a fixture
from tests.waiting import eventually

HOUR_MS = 3_600_000


@pytest.mark.parametrize("hours", [9, -9])
def test_no_line_is_lost_or_stored_twice(
    client, workspace, clock, monkeypatch, run_import, stored, hours
):
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 10)
    monkeypatch.setattr(worker, "BATCH_LINES", 10)
    monkeypatch.setattr(worker, "_SLICE_S", 0.0)
    lines = [line(number) for number in range(500)]
    # For a clock that was set back, these are in the future.
    lines += [event("recent", f"v{n}", 1) | {"timestamp": clock() - HOUR_MS} for n in range(500)]
    job = upload(workspace, lines).json()
    eventually(lambda: client.get(f"/api/imports/{job['id']}").json()["linesRead"] > 20)
    clock.wrong_ms = hours * HOUR_MS
    assert counts(finished(client, job["id"])) == (1_000, 1_000, 0, 0)
    clock.wrong_ms = 0
    assert counts(run_import(lines)) == (1_000, 0, 1_000, 0)
    assert len(stored()) == 1_000


@pytest.mark.parametrize("hours", [9, -9])
def test_a_file_whose_record_is_late_gets_its_dry_run(
    send,  # noqa: F811
    client,
    clock,
    services,
    monkeypatch,
    hours,
):
    """The clock jumps between the file and its record. The file is not older for that."""
    add = ImportService._add

    def add_late(service, job, sender):
        clock.wrong_ms = hours * HOUR_MS
        before = services.dry_runs.worker.health().last_success_at_ms
        services.dry_runs.worker.wake()
        eventually(lambda: services.dry_runs.worker.health().last_success_at_ms != before)
        return add(service, job, sender)

    monkeypatch.setattr(ImportService, "_add", add_late)
    assert summary_of(client, send([event("a", "v", 1)]))["events"] == 1
