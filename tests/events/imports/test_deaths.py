"""An import during which the process dies is read line by line, and then fails with the reason."""

import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.events.conftest import finished, only_import, upload_to
from tests.events.imports.conftest import counts, line
from tests.serving import Served, penstock, start_until_killed
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("starts_service")

DYING = ("tests.faults.faulty_service", "import_before_batch", "1")
"""A service that dies when it begins the first batch of an import."""
DYING_OF_BATCHES = ("tests.faults.faulty_service", "dies_of_batches", "1")
"""A service that dies when a batch has more than one line."""
DYING_DRY_RUN = ("tests.faults.faulty_service", "dry_run_before_slice", "1")


def died(served):
    return served.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL


class Deaths:
    """A data folder with one import, during which each start dies."""

    def __init__(self, data: Path, *, program=DYING, **query) -> None:
        self.data, self.program = data, program
        first = Served(data, program=program)
        try:
            self.key, website_id = first.first_account()
            lines = [line(number) for number in range(20)]
            with suppress(httpx.TransportError):  # It may die before it has answered.
                upload_to(first.client, website_id, lines, **query)
            assert died(first)
        finally:
            first.kill()

    def start(self) -> Served:
        return Served(self.data, program=self.program, key=self.key)

    def dies_again(self) -> None:
        start_until_killed(self.data, self.program, self.key)


@pytest.mark.slow("starts four services")
def test_an_import_that_ends_the_process_twice_fails_and_the_service_runs(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path / "data")
    deaths.dies_again()
    with deaths.start() as served:
        job = finished(served.client, only_import(served.client))
        assert (job["state"], job["accepted"]) == ("failed", 0)
        assert "stopped twice while it read the first lines" in job["error"]
        assert served.client.get("/health/ready").status_code == 200
        assert served.stop() == 0
    assert not list((tmp_path / "data" / "attempts").iterdir())


@pytest.mark.slow("starts two services")
def test_lines_during_which_the_process_died_are_stored_one_by_one(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path / "data", program=DYING_OF_BATCHES)
    with deaths.start() as served:
        job = finished(served.client, only_import(served.client))
        assert (job["state"], counts(job)) == ("done", (20, 20, 0, 0))
        assert served.stop() == 0


@pytest.mark.slow("starts two services and four commands")
def test_an_import_is_listed_and_cancelled_while_the_service_is_stopped(tmp_path: Path) -> None:
    deaths, data = Deaths(tmp_path / "data"), str(tmp_path / "data")
    listed = penstock("imports", "list", "--data", data)
    assert listed.returncode == 0, listed.stderr
    import_id = listed.stdout.partition("  queued")[0].split()[-1]
    assert "Acme / Shop" in listed.stdout
    cancelled = penstock("imports", "cancel", import_id, "--data", data)
    assert cancelled.returncode == 0, cancelled.stderr
    again = penstock("imports", "cancel", import_id, "--data", data)
    assert (again.returncode, "is not an unfinished import" in again.stderr) == (1, True)
    assert penstock("imports", "list", "--data", data).stdout == "No unfinished imports.\n"
    with deaths.start() as served:
        job = finished(served.client, only_import(served.client))
        assert (job["id"], job["state"]) == (import_id, "cancelled")
        eventually(lambda: not list((tmp_path / "data" / "imports").iterdir()))
        assert served.stop() == 0


@pytest.mark.slow("starts four services")
def test_a_dry_run_that_ends_the_process_twice_fails_and_the_service_runs(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path / "data", program=DYING_DRY_RUN, dryRun="true")
    deaths.dies_again()
    with deaths.start() as served:
        job = finished(served.client, only_import(served.client))
        assert (job["state"], "stopped twice" in job["error"]) == ("failed", True)
        assert served.stop() == 0
