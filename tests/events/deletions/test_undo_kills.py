"""The undo of an import survives SIGKILL at each of its boundaries, and removes nothing twice."""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.answers import body_of
from tests.cases import full_except
from tests.events.conftest import finished as import_finished
from tests.events.conftest import upload_to
from tests.events.deletions.conftest import finished
from tests.serving import Served, query_warehouse
from tests.waiting import PATIENCE_S

LINES, PEOPLE = 1_200, 600
BOUNDARIES = (
    ("undo_after_request", 1),
    ("undo_in_identities", 2),
    ("undo_in_identities", 5),
    ("undo_after_identities", 1),
    ("deletion_before_removal", 1),
    ("deletion_after_removal", 1),
    ("deletion_in_catalogue", 2),
    ("deletion_after_catalogue", 1),
    ("undo_after_keys", 1),
    ("undo_after_keys", 2),
)
REMAINING = {"phone-0": ("phone-0", "user-0"), "laptop-0": ("phone-0", "user-0")}
"""Visitors that a live call and another import name too."""


def line(number: int) -> dict[str, Any]:
    """Each person has two visitors."""
    device = "phone" if number < LINES // 2 else "laptop"
    return {
        "type": "event",
        "name": "e",
        "timestamp": 1_740_000_000_000 + number,
        "visitorId": f"{device}-{number % PEOPLE}",
        "userId": f"user-{number % PEOPLE}",
    }


def imported(client: httpx.Client, website_id: str, lines: list[dict[str, Any]]) -> str:
    job = body_of(upload_to(client, website_id, lines), 201)
    import_id: str = import_finished(client, job["id"])["id"]
    return import_id


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts three services")
@pytest.mark.parametrize(
    ("boundary", "number"),
    full_except([("undo_in_identities", 2)], BOUNDARIES, "kills beyond one of each store"),
)
def test_an_undo_continues_after_a_kill(
    tmp_path: Path, boundary: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        key, website_id = service.first_account()
        wrong = imported(service.client, website_id, [line(each) for each in range(LINES)])
        other = imported(service.client, website_id, [line(LINES - 1), line(LINES)])
        who = {"websiteId": website_id, "visitorId": "phone-0", "userId": "user-0"}
        assert service.client.post("/api/identify", json=who).status_code == 200
        assert service.stop() == 0
    program = ("tests.faults.faulty_service", boundary, str(number))
    with Served(data, key=key, program=program) as service:
        with suppress(httpx.TransportError):
            service.client.post(f"/api/imports/{wrong}/undo")
        assert service.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
        record_property("kills", 1)
    with Served(data, key=key) as service:
        undo = body_of(service.client.post(f"/api/imports/{wrong}/undo"))
        deletion = finished(service.client, undo["deletion"]["id"])
        missing = body_of(service.client.get(f"/api/imports/{other}"))["missingLines"]
        service.await_shipped()
        assert service.stop() == 0

    assert (deletion["eventsFound"], deletion["eventsRemoved"]) == (LINES, LINES)
    assert (deletion["visitorsRemoved"], deletion["userLinksRemoved"]) == (
        2 * PEOPLE - 2,
        PEOPLE - 1,
    )
    database = deletion["removed"]["database"]
    assert (database["merges"], database["dedupeKeys"]) == (PEOPLE - 1, LINES)
    assert missing == 1
    [events], [[mutations]] = query_warehouse(
        data,
        "SELECT import_id FROM events",
        "SELECT count() FROM system.mutations WHERE NOT is_done",
    )
    assert (events, mutations) == ([other], 0)
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        rows = db.execute("SELECT visitor_id, canonical_id, user_id FROM visitors").fetchall()
        assert {own: (canonical, user) for own, canonical, user in rows} == REMAINING
        assert db.execute("SELECT user_id FROM user_links").fetchall() == [("user-0",)]
        imports = db.execute(
            "SELECT DISTINCT import_id FROM event_keys JOIN event_origins o ON o.number = origin"
        )
        assert imports.fetchall() == [(other,)]
