"""Events that the event store has lost: reports are incomplete, and everybody can see it."""

import shutil
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from tests.answers import body_of, problem
from tests.serving import Served, penstock
from tests.waiting import eventually

FUNNEL = {
    "name": "Checkout",
    "steps": [{"type": "Event", "value": "started"}, {"type": "Event", "value": "paid"}],
}


def send(service: Served, website_id: str, number: int, name: str = "started") -> None:
    events = [
        {"websiteId": website_id, "userId": f"user-{index}", "event": name}
        for index in range(number)
    ]
    answer = service.client.post("/api/v1/events/batch", json={"events": events})
    assert answer.status_code == 202, answer.text
    service.await_shipped()


def parts_of_events(data: Path) -> list[Path]:
    """Folders of the parts of `events`, the one with the most rows first."""
    [table] = (
        path.parent
        for path in (data / "warehouse" / "store").glob("*/*/format_version.txt")
        if any(
            "client_event_id" in file.read_text() for file in path.parent.glob("all_*/columns.txt")
        )
    )
    parts = [path for path in table.glob("all_*") if (path / "count.txt").exists()]
    return sorted(parts, key=lambda part: -int((part / "count.txt").read_text()))


def remove_a_file(part: Path) -> None:
    next(part.glob("*data*.bin")).unlink()


def cut_the_checksums(part: Path) -> None:
    (part / "checksums.txt").write_bytes((part / "checksums.txt").read_bytes()[:20])


def remove_the_part(part: Path) -> None:
    shutil.rmtree(part)


class Stopped:
    """A data folder with 350 events in several parts, its key, website and funnel."""

    def __init__(self, data: Path) -> None:
        self.data = data
        with Served(data) as service:
            self.key, self.website_id = service.first_account()
            self.funnel_id = body_of(service.client.post("/api/funnels", json=FUNNEL), 201)["id"]
            for number in (50, 250, 50):
                send(service, self.website_id, number)
            assert service.stop() == 0

    def serve(self) -> Served:
        return Served(self.data, key=self.key)

    def results(self, service: Served, **query: str) -> dict[str, Any]:
        answer = service.client.get(f"/api/funnels/{self.funnel_id}/results", params=query)
        return body_of(answer)


@pytest.fixture(scope="module")
def prepared(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    return Stopped(tmp_path_factory.mktemp("prepared") / "data")


@pytest.fixture
def stopped(prepared: Stopped, tmp_path: Path) -> Stopped:
    """A copy of the folder, for one test."""
    shutil.copytree(prepared.data, tmp_path / "data", symlinks=True)
    stopped = copy(prepared)
    stopped.data = tmp_path / "data"
    return stopped


def missing(service: Served) -> int | None:
    return service.client.get("/health/ready").json()["missingEvents"]["events"]


def assert_report_is_incomplete(stopped: Stopped, service: Served, lost: int) -> None:
    answer = service.client.get("/health/ready")
    assert (answer.status_code, answer.json()["missingEvents"]["events"]) == (200, lost)
    assert "events_lost" in service.output()
    coverage = stopped.results(service)["coverage"]
    assert not coverage["complete"]
    assert [gap["kind"] for gap in coverage["gaps"]] == ["loss"]
    assert "loss" in coverage["noteCodes"]
    send(service, stopped.website_id, 10)  # the intake continues
    assert missing(service) == lost


@pytest.mark.full("further kinds of damage")
@pytest.mark.parametrize("damage", [cut_the_checksums, remove_the_part])
def test_a_report_over_lost_events_is_incomplete(stopped: Stopped, damage: Any) -> None:
    part = parts_of_events(stopped.data)[0]
    lost = int((part / "count.txt").read_text())
    damage(part)
    with stopped.serve() as service:
        assert_report_is_incomplete(stopped, service, lost)


def test_a_report_over_lost_events_is_incomplete_and_stays_so_after_the_loss_is_accepted(
    stopped: Stopped,
) -> None:
    part = parts_of_events(stopped.data)[0]
    lost = int((part / "count.txt").read_text())
    remove_a_file(part)
    with stopped.serve() as service:
        assert_report_is_incomplete(stopped, service, lost)
        assert service.stop() == 0
    verified = penstock("verify", "--data", str(stopped.data))
    assert verified.returncode == 1
    assert f"PROBLEM rows of events: {lost} " in verified.stdout
    assert "--accept-loss" in verified.stdout
    accepted = penstock("verify", "--accept-loss", "--data", str(stopped.data))
    assert accepted.returncode == 0, accepted.stdout
    verified = penstock("verify", "--data", str(stopped.data))
    assert verified.returncode == 0, verified.stdout
    with stopped.serve() as service:
        assert missing(service) == 0
        coverage = stopped.results(service)["coverage"]
        assert (coverage["complete"], coverage["gaps"][0]["state"]) == (False, "accepted")
        send(service, stopped.website_id, 10)
        assert service.stop() == 0
    with stopped.serve() as service:
        assert missing(service) == 0


@pytest.mark.full("faults of disks")
def test_damage_that_only_a_query_meets_says_that_a_backup_is_needed(stopped: Stopped) -> None:
    for part in parts_of_events(stopped.data):
        file = next(part.glob("*data*.bin"))
        content = bytearray(file.read_bytes())
        for index in range(20, len(content), 50):
            content[index] ^= 255
        file.write_bytes(content)
    with stopped.serve() as service:
        answer = service.client.get(f"/api/funnels/{stopped.funnel_id}/results")
        assert problem(answer) == (503, "warehouse_damaged")
        assert "Restore a backup" in answer.json()["detail"]
        assert "Retry-After" not in answer.headers
        assert service.stop() == 0
    verified = penstock("verify", "--data", str(stopped.data))
    assert verified.returncode == 1
    assert "PROBLEM parts of events" in verified.stdout


@pytest.mark.full("faults of disks")
def test_a_file_that_is_removed_beside_a_running_service_is_damage(stopped: Stopped) -> None:
    with stopped.serve() as service:
        for part in parts_of_events(stopped.data):
            remove_a_file(part)
        answer = service.client.get(f"/api/funnels/{stopped.funnel_id}/results")
        assert problem(answer) == (503, "warehouse_damaged")


def test_a_part_that_comes_back_is_no_loss_any_more(stopped: Stopped, tmp_path: Path) -> None:
    part = parts_of_events(stopped.data)[0]
    shutil.move(part, tmp_path / part.name)
    with stopped.serve() as service:
        assert missing(service)
        assert service.stop() == 0
    shutil.move(tmp_path / part.name, part)
    with stopped.serve() as service:
        assert missing(service) == 0
        assert stopped.results(service)["coverage"]["gaps"] == []


def all_deletions_are_done(service: Served) -> bool:
    deletions = service.client.get("/api/deletions").json()["data"]
    return all(deletion["state"] == "done" for deletion in deletions)


def test_deletions_are_no_loss(stopped: Stopped) -> None:
    with stopped.serve() as service:
        for target in (
            {"userId": "user-3"},
            {"from": "2020-01-01T00:00:00Z", "to": "2299-01-01T00:00:00Z"},
        ):
            send(service, stopped.website_id, 20)
            form = {"websiteId": stopped.website_id, **target}
            assert service.client.post("/api/deletions", json=form).status_code == 201
            eventually(lambda: all_deletions_are_done(service))
        send(service, stopped.website_id, 5)
        service.kill()
    with stopped.serve() as service:
        assert missing(service) == 0
        assert "event_rows_baseline" not in service.output()
        assert service.stop() == 0
    assert penstock("verify", "--data", str(stopped.data)).returncode == 0
