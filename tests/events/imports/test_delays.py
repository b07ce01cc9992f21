"""Faults of a disk or a store delay an import, a bug ends it, and no file stays without a job."""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.app import Services
from penstock.base.errors import StoreUnavailable
from penstock.events.imports import batches, entries, worker
from penstock.events.imports.entries import Occurrences
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.reader import ReaderLimits, Row
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.events.conftest import Import, ndjson, read_rows_by
from tests.events.conftest import upload as send_file
from tests.events.imports.conftest import counts, line
from tests.tenant import Tenant
from tests.waiting import eventually

LINES = [line(1), line(1), line(2), line(1), line(3), line(1)]
"""Equal ones too: where reading continues, they must get the same numbers."""
TOO_MANY_FILES = OSError(errno.EMFILE, "Too many open files")

Patch = Callable[[pytest.MonkeyPatch], None]
Upload = Callable[[], httpx.Response]


@pytest.fixture
def upload(workspace: Tenant) -> Upload:
    return lambda: send_file(workspace, LINES)


def files(settings: Settings) -> list[Path]:
    return list((settings.data / "imports").iterdir())


def failing_once(function: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """The function, whose first call raises the error."""
    errors = [error]

    def call(*args: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return function(*args, **more)

    return call


def fail_when_opened(patch: pytest.MonkeyPatch) -> None:
    read_rows_by(patch, failing_once(NDJSON.rows, TOO_MANY_FILES))


def fail_within_the_file(patch: pytest.MonkeyPatch) -> None:
    """After the first batches, which are saved by then."""
    errors = [TOO_MANY_FILES]

    def read(path: Path, limits: ReaderLimits) -> Iterator[Row]:
        for row in NDJSON.rows(path, limits):
            if row.line == 5 and errors:
                raise errors.pop()
            yield row

    read_rows_by(patch, read)


def fill_temporary_folder(patch: pytest.MonkeyPatch) -> None:
    """For the first time that the file is read."""

    class FullDatabase:
        def execute(self, *_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    databases = [FullDatabase()]

    def count() -> Occurrences:
        occurrences = Occurrences()
        if databases:
            vars(occurrences)["_seen"] = databases.pop()
        return occurrences

    patch.setattr(entries, "Occurrences", count)


@pytest.mark.parametrize("fail", [fail_when_opened, fail_within_the_file, fill_temporary_folder])
def test_a_fault_of_the_disk_delays_an_import_and_loses_no_line(
    run_import: Import, monkeypatch: pytest.MonkeyPatch, fail: Patch
) -> None:
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 2)
    fail(monkeypatch)
    job = run_import(LINES)
    assert (job["state"], job["error"], counts(job)) == ("done", None, (6, 6, 0, 0))


@pytest.mark.usefixtures("warehouse")
def test_an_import_continues_between_empty_lines_and_counts_each_once(
    run_import: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 1)
    event, empty = ndjson([line(1)]), b"\n" * 100_000
    fail_at = [400_004, 300_003, 100_002, 1]

    def read(path: Path, limits: ReaderLimits) -> Iterator[Row]:
        for row in NDJSON.rows(path, limits):
            if fail_at and row.line >= fail_at[-1]:
                fail_at.pop()
                raise TOO_MANY_FILES
            yield row

    read_rows_by(monkeypatch, read)
    job = run_import(event + empty + event + (empty + empty + event) + (empty + event) + empty)
    assert (job["state"], counts(job)) == ("done", (500_004, 4, 0, 0))
    assert (job["emptyLines"], fail_at) == (500_000, [])


def test_an_import_that_failed_by_a_bug_can_be_repeated(
    run_import: Import, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LARGE_BATCH_LINES", 2)
    with monkeypatch.context() as patch:
        reject = failing_once(batches._rejected_row, KeyError("a bug"))
        patch.setattr(batches, "_rejected_row", reject)
        job = run_import([*LINES[:3], {}, *LINES[3:]])
    assert (job["state"], counts(job)) == ("failed", (2, 2, 0, 0))
    assert "internal error" in job["error"]
    assert "import the file again" in job["error"]
    eventually(lambda: not files(settings))
    assert counts(run_import(LINES)) == (6, 4, 2, 0)


# Files whose job the metadata DB did not store ----------------------------------------------------


def test_the_file_of_an_unconfirmed_upload_is_removed_after_ten_minutes(
    upload: Upload,
    services: Services,
    settings: Settings,
    clock: ShiftedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def be_away(*_: Any) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(services.imports, "_add", be_away)
        assert upload().status_code == 503
    # The worker has looked at it by the time that another import is done.
    assert upload().status_code == 201
    eventually(lambda: len(files(settings)) == 1)
    clock.advance(seconds=601)
    services.imports.worker.wake()
    eventually(lambda: not files(settings))


def test_an_upload_that_was_stored_although_the_answer_said_503_is_imported(
    upload: Upload,
    client: httpx.Client,
    services: Services,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = services.imports._add

    def add_without_confirmation(*args: Any) -> None:
        add(*args)
        raise StoreUnavailable

    monkeypatch.setattr(services.imports, "_add", add_without_confirmation)
    assert upload().status_code == 503
    eventually(lambda: client.get("/api/imports").json()["data"][0]["state"] == "done")
    eventually(lambda: not files(settings))


def test_an_upload_whose_job_cannot_be_stored_leaves_no_file(
    upload: Upload, services: Services, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(services.imports, "_add", fail)
    assert upload().status_code == 500
    assert not files(settings)
