"""A small disk that imports, ballast or the event store fill.

Events, log-ins and cancellations continue, and what was acknowledged is stored once.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests.answers import problem
from tests.events.conftest import upload_to
from tests.faults.test_faults import full_run_only, small_disk
from tests.serving import Served, penstock
from tests.tenant import PASSWORD
from tests.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.usefixtures("starts_service"), pytest.mark.full("disks that fill")]

RESERVE = 40 * 1024**2


def post_events(service: Served, website_id: str, first: int) -> bool:
    """Post 100 events whose IDs begin at a number, and return whether they are acknowledged."""
    fields = {"websiteId": website_id, "event": "opened"}
    events = [
        {
            **fields,
            "visitorId": f"v-{number}",
            "eventId": f"e-{number}",
            "properties": {"text": Random(number).randbytes(200).hex()},
        }
        for number in range(first, first + 100)
    ]
    answer = service.client.post("/api/v1/events/batch", json={"events": events})
    if answer.status_code == 503:
        return False
    assert answer.json()["rejected"] == 0, answer.text
    return True


def upload(service: Served, website_id: str, size: int, *, is_dry_run: bool = True) -> Any:
    """Send a file of this size whose only line is too long to be read quickly."""
    line = b'{"type": "event", "name": "a", "visitorId": "v", "timestamp": 1588327200000}\n'
    content = line * (size // len(line))
    return upload_to(service.client, website_id, content, dryRun=str(is_dry_run).lower())


def free_bytes(service: Served) -> int:
    return service.client.get("/health/ready").json()["resources"]["diskFreeBytes"]


def failed_shipments(service: Served) -> int:
    return service.client.get("/health/ready").json()["outbox"]["failedShipments"]


def fill(ballast: Path, *, leave: int = 0) -> None:
    """Extend a file until only this many bytes of the disk are free."""
    with suppress(OSError), ballast.open("ab") as file:
        while shutil.disk_usage(ballast).free > leave:
            file.write(os.urandom(64 * 1024))
            file.flush()


@full_run_only
@pytest.mark.slow("fills a disk")
def test_files_that_nobody_starts_leave_room_for_events(tmp_path: Path) -> None:
    settings = {"PENSTOCK_MIN_FREE_DISK_BYTES": str(RESERVE)}
    with small_disk(tmp_path / "disk", 300) as disk, Served(disk / "data", **settings) as service:
        _, website_id = service.first_account()
        jobs = []
        while (answer := upload(service, website_id, 30 * 1024**2)).status_code == 201:
            jobs.append(answer.json()["id"])
        assert problem(answer) == (507, "disk_low")
        assert len(jobs) >= 3
        assert free_bytes(service) > RESERVE - 4 * 1024**2
        service.client.get("/health/ready").raise_for_status()
        for batch in range(60):
            assert post_events(service, website_id, batch * 100)
        log_in = {"email": "owner@example.com", "password": PASSWORD}
        assert httpx.post(f"{service.url}/api/auth/login", json=log_in).status_code == 200
        for job in jobs:
            assert service.client.post(f"/api/imports/{job}/cancel").status_code == 200
        assert eventually(lambda: free_bytes(service) > RESERVE + 60 * 1024**2)
        assert upload(service, website_id, 1024**2).status_code == 201


@full_run_only
@pytest.mark.slow("fills a disk")
@pytest.mark.parametrize("is_dry_run", [True, False])
def test_a_cancellation_frees_a_disk_without_any_space(tmp_path: Path, is_dry_run: bool) -> None:
    settings = {"PENSTOCK_MIN_FREE_DISK_BYTES": str(RESERVE)}
    with small_disk(tmp_path / "disk", 300) as disk, Served(disk / "data", **settings) as service:
        _, website_id = service.first_account()
        job = upload(service, website_id, 60 * 1024**2, is_dry_run=is_dry_run).json()
        fill(disk / "ballast")
        ready = service.client.get("/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert "The disk is full" in ready.json()["reason"]
        cancelled = service.client.post(f"/api/imports/{job['id']}/cancel")
        assert cancelled.status_code == 200, cancelled.text + service.output()
        assert eventually(lambda: free_bytes(service) > 50 * 1024**2, within_s=PATIENCE_S)
        assert post_events(service, website_id, 0)
        eventually(lambda: service.client.get("/health/ready").status_code == 200)


@full_run_only
@pytest.mark.slow("fills a disk while the event store merges")
def test_a_nearly_full_disk_during_merges_loses_no_event(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 300) as disk:
        data, ballast = disk / "data", disk / "ballast"
        with Served(data, PENSTOCK_MIN_FREE_DISK_BYTES="0") as service:
            _, website_id = service.first_account()
            accepted = 0
            for megabytes in (4, 1, 0):
                # Each batch adds a part. The ballast takes the space that the engine frees when it
                # has merged parts.
                for _ in range(30):
                    fill(ballast, leave=megabytes * 1024**2)
                    accepted += 100 * post_events(service, website_id, accepted)
            eventually(lambda: failed_shipments(service), within_s=2 * PATIENCE_S)
            ballast.unlink()
            eventually(lambda: post_events(service, website_id, accepted), within_s=4 * PATIENCE_S)
            accepted += 100
            service.await_shipped()
            names = {"websiteId": website_id}
            [opened] = service.client.get("/api/schema/events", params=names).json()["data"]
            assert opened["count"] == accepted
            assert service.stop() == 0
        verified = penstock("verify", "--data", str(data))
        assert verified.returncode == 0, verified.stdout + verified.stderr
